"""CUDA-only arguments and parts of transformers, accelerate, Lightning, timm and Horovod."""

from __future__ import annotations

from .deepspeed import ENGINE
from .fused import MEGATRON, QUANTISED
from .row import (
    ABSENT,
    ARGUMENTS,
    CONTEXT,
    NONE,
    RAISES,
    RENAMED,
    REWRITTEN,
    RUNTIME,
    SILENT,
    Row,
    rows,
)

_AVERAGES = (
    "xla.all_reduce(tensor, op=torch.distributed.ReduceOp.AVG)",
    "averages, and gives a new tensor where its name does not end in _: use it in place, on a copy; with `op=hvd.Sum` or "
    "`average=False` leave `op` out",
)
_FILLS = "gives its result: use what is filled in place"
_OPERATION = (
    "an operation of Horovod's: use that of torch.distributed.ReduceOp (AVG, SUM, MIN, MAX)"
)
_REST = "averages over NCCL or MPI: use the runtime's counterpart (docs/runtime.md), or remove it if it only tunes"

FRAMEWORKS: tuple[Row, ...] = (
    *rows(
        "horovod.torch",
        ABSENT,
        NONE,
        RAISES,
        {
            "init": ("xla.init_process_group()", ""),
            "rank": ("xla.rank()", ""),
            "local_rank": ("xla.local_rank()", ""),
            "size": ("xla.world_size()", ""),
            "local_size": 'processes of this host: use `int(os.environ["LOCAL_WORLD_SIZE"])` under torchrun',
            "DistributedOptimizer": (
                "xla.optimizer_step(optimizer)",
                "averages over NCCL or MPI: leave the optimizer as it is",
            ),
            "broadcast_parameters": ("xla.DistributedDataParallel(model)", ""),
            "broadcast_optimizer_state": "sends the optimizer's state: load it in every process",
            **dict.fromkeys(
                ("allreduce", "allreduce_", "allreduce_async", "allreduce_async_"), _AVERAGES
            ),
            **dict.fromkeys(
                ("grouped_allreduce", "grouped_allreduce_", "sparse_allreduce_async"), _AVERAGES
            ),
            **dict.fromkeys(
                ("allgather", "allgather_async", "grouped_allgather"),
                "joins tensors along their first dimension, of unequal lengths, too: use `xla.all_gather` on tensors "
                "padded to one length",
            ),
            "allgather_object": ("xla.all_gather_object(objects, obj)", _FILLS),
            **dict.fromkeys(
                ("broadcast", "broadcast_", "broadcast_async", "broadcast_async_"),
                (
                    "xla.broadcast(tensor, src)",
                    "gives a new tensor where its name does not end in _: use it in place, on a copy",
                ),
            ),
            "broadcast_object": ("xla.broadcast_object_list([obj], src)", _FILLS),
            **dict.fromkeys(
                ("alltoall", "alltoall_async"), ("xla.all_to_all_single(output, tensor)", _FILLS)
            ),
            **dict.fromkeys(
                ("reducescatter", "reducescatter_async"),
                (
                    "xla.reduce_scatter_tensor(output, tensor, op=torch.distributed.ReduceOp.AVG)",
                    _FILLS,
                ),
            ),
            **dict.fromkeys(
                ("synchronize", "poll"),
                "waits for a handle: call `wait()` of the handle that the runtime gives with async_op=True",
            ),
            "barrier": ("xla.barrier()", ""),
            "join": "lets processes run out of batches: give all the same number of batches (drop_last=True)",
            "Adasum": "adds gradients in a special way that XLA does not have: train with averages, and their learning rate",
            **dict.fromkeys(("Average", "Sum", "Min", "Max"), _OPERATION),
            "SyncBatchNorm": ("xla.SyncBatchNorm", ""),
            "elastic": "restarts processes that die: use torchrun's `--max-restarts`",
            "Compression": "sends gradients in 16 bits: remove it",
        },
        rule="XLA805",
        torch="any",
        evidence="docs",
    ),
    *rows(
        "", ABSENT, NONE, RAISES, {"horovod": _REST}, rule="XLA805", torch="any", evidence="docs"
    ),
    *rows(
        "timm.utils",
        REWRITTEN,
        RENAMED,
        SILENT,
        {
            "NativeScaler": ("xla.NativeScaler()", "a GradScaler inside"),
            "ApexScaler": ("xla.NativeScaler()", "apex inside"),
        },
        rule="XLA205",
        torch="any",
        evidence="docs",
    ),
    *rows(
        "timm",
        REWRITTEN,
        CONTEXT,
        SILENT,
        {
            "data.create_loader(device)": (
                "device=xla.xla_device()",
                "its prefetcher moves to CUDA unless told otherwise",
            ),
            "data.loader.PrefetchLoader": (
                "device=xla.xla_device()",
                "moves to CUDA unless told otherwise",
            ),
        },
        rule="XLA806",
        torch="any",
        evidence="docs",
    ),
    *rows(
        "transformers",
        REWRITTEN,
        ARGUMENTS,
        RAISES,
        {
            "TrainingArguments(optim)": (
                'optim="adamw_torch_fused" if xla.device_type() == "cuda" else "adamw_torch"',
                "the default is a fused AdamW, which fails on XLA",
            ),
            "TrainingArguments(fp16)": (
                'bf16=xla.device_type() != "cuda"',
                "float16 needs a GradScaler: one more run and one more host read per step",
            ),
            "TrainingArguments(tf32)": ("", "needs an NVIDIA device: dropped"),
            "TrainingArguments(torch_compile)": ("", "the inductor knows no XLA tensors: dropped"),
        },
        rule="XLA801",
        torch="any",
        evidence="docs",
    ),
    *rows(
        "",
        REWRITTEN,
        RENAMED,
        SILENT,
        dict.fromkeys(
            (
                "transformers.is_torch_cuda_available",
                "transformers.utils.is_torch_cuda_available",
                "accelerate.utils.is_cuda_available",
            ),
            "xla.is_available()",
        ),
        rule="XLA102",
        torch="any",
        evidence="docs",
    ),
    *rows(
        "transformers",
        ABSENT,
        NONE,
        RAISES,
        {
            "BitsAndBytesConfig": QUANTISED,
            "AutoModel.from_pretrained(load_in_8bit)": QUANTISED,
            "AutoModel.from_pretrained(load_in_4bit)": QUANTISED,
        },
        rule="XLA808",
        torch="any",
        evidence="docs",
    ),
    *rows(
        "transformers",
        REWRITTEN,
        ARGUMENTS,
        RAISES,
        {
            'AutoModel.from_pretrained(attn_implementation="flash_attention_2")': 'attn_implementation="sdpa"'
        },
        rule="XLA904",
        torch="any",
        evidence="docs",
    ),
    *rows(
        "transformers",
        REWRITTEN,
        ARGUMENTS,
        SILENT,
        {
            "AutoModel.from_pretrained(device_map)": (
                "device_map=xla.xla_device()",
                "places modules on CUDA devices",
            )
        },
        rule="XLA807",
        torch="any",
        evidence="docs",
    ),
    *rows(
        "accelerate",
        REWRITTEN,
        ARGUMENTS,
        RAISES,
        {
            "Accelerator(mixed_precision)": (
                'mixed_precision="fp16" if xla.device_type() == "cuda" else "bf16"',
                "float16 needs a GradScaler, which synchronises at every step",
            ),
            "Accelerator.save_state": (
                "xla.save_state(accelerator, folder)",
                "fails on the wrapped loader",
            ),
        },
        rule="XLA802",
        torch="any",
        evidence="docs",
    ),
    *rows(
        "accelerate",
        REWRITTEN,
        CONTEXT,
        SILENT,
        {
            "FullyShardedDataParallelPlugin": (
                "xla.patch_accelerate()",
                "accelerate ignores it on XLA; the runtime shards over all devices of one process",
            ),
        },
        rule="XLA814",
        torch="any",
        evidence="docs",
    ),
    *rows(
        "accelerate",
        ABSENT,
        NONE,
        RAISES,
        {
            "DeepSpeedPlugin": ENGINE,
            "MegatronLMPlugin": MEGATRON,
        },
        rule="XLA802",
        torch="any",
        evidence="docs",
    ),
    *rows(
        "lightning",
        RUNTIME,
        ARGUMENTS,
        RAISES,
        {
            "Trainer(accelerator)": (
                'accelerator="auto"',
                "Lightning's own XLA support takes TPUs; xla.patch_lightning() makes it take every XLA device",
            ),
            "Trainer(precision)": (
                'precision="16-mixed" if xla.device_type() == "cuda" else "bf16-mixed"',
                "float16 needs a GradScaler",
            ),
            "Trainer(strategy)": (
                'strategy="auto"',
                'strategies "ddp", "fsdp" and "deepspeed" need CUDA or the CPU',
            ),
        },
        rule="XLA803",
        torch="any",
        evidence="docs",
    ),
)

ROWS: tuple[Row, ...] = FRAMEWORKS
