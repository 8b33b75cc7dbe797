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

_HOROVOD = "averages over NCCL or MPI: `xla.launch` and `xla.optimizer_step` do so on XLA"

FRAMEWORKS: tuple[Row, ...] = (
    *rows(
        "horovod.torch",
        ABSENT,
        NONE,
        RAISES,
        {
            "init": ("xla.init_process_group()", _HOROVOD),
            "rank": ("xla.rank()", _HOROVOD),
            "local_rank": ("xla.local_rank()", _HOROVOD),
            "size": ("xla.world_size()", _HOROVOD),
            "DistributedOptimizer": ("xla.optimizer_step(optimizer)", _HOROVOD),
            "broadcast_parameters": ("xla.DistributedDataParallel(model)", _HOROVOD),
            "broadcast_optimizer_state": _HOROVOD,
            "allreduce": ("xla.all_reduce(tensor)", _HOROVOD),
            "Compression": _HOROVOD,
        },
        rule="XLA805",
        torch="any",
        evidence="docs",
    ),
    *rows(
        "", ABSENT, NONE, RAISES, {"horovod": _HOROVOD}, rule="XLA805", torch="any", evidence="docs"
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
                'optim="adamw_torch"',
                "the default is a fused AdamW, which fails on XLA",
            ),
            "TrainingArguments(fp16)": (
                "bf16=True",
                "float16 needs a GradScaler: one more run and one more host read per step",
            ),
            "TrainingArguments(tf32)": ("", "asks for an NVIDIA device: dropped"),
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
                'mixed_precision="bf16"',
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
        ABSENT,
        NONE,
        RAISES,
        {
            "DeepSpeedPlugin": ENGINE,
            "FullyShardedDataParallelPlugin": "torch's FSDP knows no XLA devices: use FSDPv2 under SPMD",
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
            "Trainer(precision)": ('precision="bf16-mixed"', "float16 needs a GradScaler"),
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
