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

ENGINE = "XLA has no DeepSpeed engine: train with the model, its optimizer and `xla.optimizer_step`; for shards of ZeRO's kind use FSDPv2 under SPMD"
_OP = "a CUDA kernel of DeepSpeed's: use torch's own, XLA fuses it"

DEEPSPEED: tuple[Row, ...] = (
    *rows(
        "deepspeed",
        STAYS,
        SAME,
        HARMLESS,
        {
            "utils.zero_to_fp32": "puts checkpoints together on the host",
            "checkpoint.constants": "names of what is in checkpoints",
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
            "OnDevice": "build on the host, then move",
            "pipe.PipelineModule": "pipelines over NCCL: shard with SPMD",
            "moe": "mixtures of experts over NCCL: shard with SPMD",
            "moe.layer.MoE": "mixtures of experts over NCCL: shard with SPMD",
            "sequence": "sequence parallelism over NCCL: shard with SPMD",
            "comm": ("torch.distributed", "DeepSpeed's copy of torch.distributed"),
            "accelerator": ("xla.xla_device()", "DeepSpeed's own devices: XLA is none of them"),
            "checkpointing": (
                "xla.checkpoint(fn, *args)",
                "activation checkpointing with CUDA's streams and generators",
            ),
            "compression": ENGINE,
            "module_inject": _OP,
            "runtime": ENGINE,
            "io": "writes with GPUDirect and asynchronous I/O: use `xla.save`",
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
                "the numbers of the kernel in DeepSpeed 0.19.6",
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
            "ops.aio": "asynchronous I/O of DeepSpeed's own",
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
