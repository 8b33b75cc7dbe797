"""DeepSpeed: its engine, its optimizers, its kernels."""

from __future__ import annotations

from .row import (
    ABSENT,
    ARGUMENTS,
    HARMLESS,
    NONE,
    RAISES,
    RENAMED,
    REWRITTEN,
    RUNTIME,
    SAME,
    STAYS,
    Row,
    rows,
)

ENGINE = "DeepSpeed's engine does not run on XLA: train with the model, its optimizer and `xla.optimizer_step`, and shard with `xla.FullyShardedDataParallel`"
_OP = "it is a CUDA kernel: use PyTorch's operations, which XLA fuses"

DEEPSPEED: tuple[Row, ...] = (
    *rows(
        "deepspeed",
        STAYS,
        SAME,
        HARMLESS,
        {
            "utils.zero_to_fp32": "it joins checkpoints on the host",
            "checkpoint.constants": "it contains keys of checkpoints",
            "utils.logger": "a logger",
            "utils.logging": "a logger",
        },
        torch="any",
        evidence="docs",
    ),
    *rows(
        "deepspeed",
        ABSENT,
        NONE,
        RAISES,
        {
            "init_inference": ENGINE,
            "tp_model_init": ENGINE,
            "DeepSpeedConfig": ENGINE,
            "DeepSpeedTransformerConfig": _OP,
            "DeepSpeedTransformerLayer": _OP,
            "OnDevice": "build the model on the host, then move it",
            "pipe.PipelineModule": "its pipelines need NCCL: shard with SPMD",
            "moe": "its mixtures of experts need NCCL: shard with SPMD",
            "moe.layer.MoE": "its mixtures of experts need NCCL: shard with SPMD",
            "sequence": "its sequence parallelism needs NCCL: shard with SPMD",
            "comm": ("torch.distributed", "the original wraps torch.distributed"),
            "accelerator": ("xla.xla_device()", "DeepSpeed does not know XLA devices"),
            "checkpointing": (
                "xla.checkpoint(fn, *args)",
                "DeepSpeed's activation checkpointing needs CUDA streams and generators",
            ),
            "compression": ENGINE,
            "module_inject": _OP,
            "runtime": ENGINE,
            "io": "it writes with GPUDirect and asynchronous I/O: use `xla.save`",
        },
        rule="XLA804",
        torch="any",
        evidence="docs",
    ),
    *rows(
        "deepspeed",
        RUNTIME,
        RENAMED,
        RAISES,
        {
            name: f"xla_migrate.runtime.compat.deepspeed.{name}"
            for name in (
                "DeepSpeedEngine",
                "add_config_arguments",
                "checkpointing.checkpoint",
                "checkpointing.configure",
                "checkpointing.is_configured",
                "checkpointing.reset",
                "get_accelerator",
                "init_distributed",
                "initialize",
                "zero.GatheredParameters",
                "zero.Init",
            )
        }
        | {
            "accelerator.get_accelerator": "xla_migrate.runtime.compat.deepspeed.get_accelerator",
            "comm.init_distributed": "xla_migrate.runtime.compat.deepspeed.init_distributed",
            "runtime.engine.DeepSpeedEngine": "xla_migrate.runtime.compat.deepspeed.DeepSpeedEngine",
        },
        rule="XLA804",
        torch="any",
        evidence="docs",
    ),
    *rows(
        "deepspeed.ops",
        REWRITTEN,
        ARGUMENTS,
        RAISES,
        {
            "adam.FusedAdam": "torch.optim.AdamW(...)",
            "adam.DeepSpeedCPUAdam": "torch.optim.AdamW(...)",
            "lion.FusedLion": "timm.optim.Lion(...)",
            "lion.DeepSpeedCPULion": "timm.optim.Lion(...)",
            "adagrad.DeepSpeedCPUAdagrad": "torch.optim.Adagrad(...)",
        },
        rule="XLA303",
        torch="any",
        evidence="docs",
    ),
    *rows(
        "deepspeed.ops",
        RUNTIME,
        ARGUMENTS,
        RAISES,
        {
            "lamb.FusedLamb": (
                "xla.BoundedLamb(...)",
                "it computes the same as the kernel of DeepSpeed 0.19.6",
            )
        },
        rule="XLA303",
        torch="any",
        evidence="docs",
    ),
    *rows(
        "deepspeed",
        ABSENT,
        NONE,
        RAISES,
        {
            "ops": _OP,
            "ops.op_builder": _OP,
            "ops.sparse_attention": ("torch.nn.functional.scaled_dot_product_attention", _OP),
            "ops.transformer": _OP,
            "ops.aio": "DeepSpeed's asynchronous I/O needs a compiled extension",
        },
        rule="XLA804",
        torch="any",
        evidence="docs",
    ),
    *rows(
        "",
        ABSENT,
        NONE,
        RAISES,
        {"deepspeed": ENGINE},
        rule="XLA804",
        torch="any",
        evidence="docs",
    ),
)

ROWS: tuple[Row, ...] = DEEPSPEED
