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
    "`xla.all_reduce` writes into its argument: pass a copy if the name does not end in _, and "
    "omit `op` for `hvd.Sum` or "
    "`average=False`",
)
_FILLS = "the replacement fills its first argument instead of returning a result"
_OPERATION = "it is a Horovod operation: use `torch.distributed.ReduceOp` (AVG, SUM, MIN, MAX)"
_REST = "Horovod communicates over NCCL or MPI: use the runtime's function (docs/runtime.md), or remove the call if it only tunes Horovod"

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
            "local_size": 'it counts the processes of this host: use `int(os.environ["LOCAL_WORLD_SIZE"])` under torchrun',
            "DistributedOptimizer": (
                "xla.optimizer_step(optimizer)",
                "`xla.optimizer_step` averages the gradients: do not wrap the optimizer",
            ),
            "broadcast_parameters": ("xla.DistributedDataParallel(model)", ""),
            "broadcast_optimizer_state": "it sends the optimizer's state: load the state in every process",
            **dict.fromkeys(
                ("allreduce", "allreduce_", "allreduce_async", "allreduce_async_"), _AVERAGES
            ),
            **dict.fromkeys(
                ("grouped_allreduce", "grouped_allreduce_", "sparse_allreduce_async"), _AVERAGES
            ),
            **dict.fromkeys(
                ("allgather", "allgather_async", "grouped_allgather"),
                "it also joins tensors of unequal lengths: use `xla.all_gather` on tensors padded "
                "to one length",
            ),
            "allgather_object": ("xla.all_gather_object(objects, obj)", _FILLS),
            **dict.fromkeys(
                ("broadcast", "broadcast_", "broadcast_async", "broadcast_async_"),
                (
                    "xla.broadcast(tensor, src)",
                    "`xla.broadcast` writes into its argument: pass a copy if the name does not "
                    "end in _",
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
                "it waits for a Horovod handle: call `wait()` of the handle that the runtime "
                "returns with async_op=True",
            ),
            "barrier": ("xla.barrier()", ""),
            "join": "on XLA all processes must run the same number of steps: give each the same number of batches (drop_last=True)",
            "Adasum": "XLA has no Adasum: train with averaged gradients, and adapt the learning rate",
            **dict.fromkeys(("Average", "Sum", "Min", "Max"), _OPERATION),
            "SyncBatchNorm": ("xla.SyncBatchNorm", ""),
            "elastic": "it restarts processes that die: use torchrun's `--max-restarts`",
            "Compression": "it sends gradients in 16 bits",
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
            "NativeScaler": ("xla.NativeScaler()", "the original contains a GradScaler"),
            "ApexScaler": ("xla.NativeScaler()", "the original contains the scaler of apex"),
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
                "timm's prefetcher moves batches to CUDA unless it gets a device",
            ),
            "data.loader.PrefetchLoader": (
                "device=xla.xla_device()",
                "timm's prefetcher moves batches to CUDA unless it gets a device",
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
                "float16 needs a GradScaler, which adds a graph launch and a host read to each "
                "step",
            ),
            "TrainingArguments(tf32)": ("", "it needs an NVIDIA device: remove it"),
            "TrainingArguments(torch_compile)": (
                "",
                "PyTorch's compiler fails on XLA tensors: remove it",
            ),
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
                "the original places modules on CUDA devices",
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
                "float16 needs a GradScaler, which reads from the device in every step",
            ),
            "Accelerator.save_state": (
                "xla.save_state(accelerator, folder)",
                "the original fails on the device loader",
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
                "accelerate ignores the plugin on XLA, and the runtime shards over all devices of "
                "one process",
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
                "Lightning supports only TPUs, and `xla.patch_lightning()` adds the other XLA "
                "devices",
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
