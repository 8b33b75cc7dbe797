"""`torch.distributed`: backends and options that are CUDA's."""

from __future__ import annotations

from .row import (
    ABSENT,
    ARGUMENTS,
    CONTEXT,
    HARMLESS,
    NONE,
    RAISES,
    REMOVED,
    RENAMED,
    REWRITTEN,
    SILENT,
    Row,
    rows,
)

_NCCL = "XLA compiles collectives into the graph and has no such options"

_STAGES = "its stages send to each other over NCCL: use SPMD, because XLA cannot send between two processes"

_MESH = "DTensor shards over CUDA devices: shard with SPMD (`torch_xla.distributed.spmd`)"

ROWS: tuple[Row, ...] = (
    *rows(
        "",
        REWRITTEN,
        ARGUMENTS,
        RAISES,
        {
            'torch.distributed.init_process_group("nccl")': "xla.init_process_group()",
        },
        rule="XLA601",
        evidence="fact 2",
    ),
    *rows(
        "",
        REWRITTEN,
        RENAMED,
        RAISES,
        {'torch.distributed.new_group(backend="nccl")': "xla.new_group(...)"},
        rule="XLA602",
        evidence="fact 2",
    ),
    *rows(
        "torch.distributed",
        ABSENT,
        NONE,
        SILENT,
        {"Backend.NCCL": _NCCL},
        rule="XLA911",
    ),
    *rows(
        "torch.distributed",
        REWRITTEN,
        CONTEXT,
        SILENT,
        {
            "is_nccl_available": (
                "xla.is_available()",
                "the original is True even without a CUDA device",
            ),
            'is_backend_available("nccl")': (
                "xla.is_available()",
                "the original is True even without a CUDA device",
            ),
        },
        rule="XLA608",
    ),
    *rows(
        "torch.distributed",
        ABSENT,
        NONE,
        RAISES,
        {
            "ProcessGroupNCCL": _NCCL,
            "ProcessGroupNCCL.Options": _NCCL,
            "distributed_c10d.ProcessGroupNCCL": _NCCL,
            "_symmetric_memory": "XLA devices share no memory",
        },
        rule="XLA911",
        evidence="docs",
    ),
    *rows(
        "torch.distributed",
        ABSENT,
        NONE,
        RAISES,
        dict.fromkeys(
            (
                "all_gather_multigpu",
                "all_reduce_multigpu",
                "broadcast_multigpu",
                "reduce_multigpu",
            ),
            "it uses several devices in one process: use the collective of one device",
        ),
        rule="XLA911",
        torch="<2.2",
        evidence="docs",
    ),
    *rows(
        "torch.distributed",
        REWRITTEN,
        CONTEXT,
        SILENT,
        {
            "get_backend": (
                'get_backend() not in ("gloo", "mpi")',
                'a test for "nccl" is False on XLA',
            )
        },
        rule="XLA608",
        evidence="docs",
    ),
    *rows(
        "",
        ABSENT,
        NONE,
        RAISES,
        {
            'torch.distributed.init_device_mesh("cuda")': _MESH,
            'torch.distributed.device_mesh.init_device_mesh("cuda")': _MESH,
            'torch.distributed.device_mesh.DeviceMesh("cuda")': _MESH,
        },
        rule="XLA911",
        torch="2.2+",
        evidence="docs",
    ),
    *rows(
        "torch.distributed.tensor.parallel",
        ABSENT,
        NONE,
        RAISES,
        {
            "parallelize_module": "tensor parallelism needs a mesh of CUDA devices: use SPMD, and mark how parameters are sharded (`xla.use_spmd`, `torch_xla.distributed.spmd.mark_sharding`)",
        },
        evidence="docs",
    ),
    *rows(
        "",
        ABSENT,
        NONE,
        RAISES,
        {
            "torch.distributed.rpc.TensorPipeRpcBackendOptions(device_maps)": "it maps CUDA devices of several hosts, and XLA has no remote calls between devices",
            "torch.distributed.rpc.init_rpc": "remote calls accept CPU tensors only: use DistributedDataParallel, or shard with SPMD",
            "torch.distributed.pipelining.PipelineStage": _STAGES,
            "torch.distributed.pipelining.pipeline": _STAGES,
        },
        evidence="docs",
    ),
    *rows(
        "torch.distributed.pipeline.sync",
        ABSENT,
        NONE,
        RAISES,
        {
            "Pipe": "its stages are CUDA devices of one process: use SPMD, because an XLA process has one device"
        },
        torch="<2.4",
        evidence="docs",
    ),
    *rows(
        "torch.distributed.fsdp",
        REMOVED,
        CONTEXT,
        SILENT,
        {
            "sharded_grad_scaler.ShardedGradScaler": "bfloat16 needs no loss scaling",
        },
        rule="XLA204",
        evidence="fact 1.74",
    ),
    *rows(
        "torch.distributed.fsdp",
        REWRITTEN,
        CONTEXT,
        RAISES,
        {
            "FullyShardedDataParallel": "xla.FullyShardedDataParallel",
            "fully_shard": "xla.fully_shard",
        },
        rule="XLA610",
        evidence="docs",
    ),
    *rows(
        "torch.distributed.algorithms.ddp_comm_hooks",
        ABSENT,
        NONE,
        HARMLESS,
        {
            "default_hooks.fp16_compress_hook": "XLA averages gradients within the graph: remove it",
            "default_hooks.bf16_compress_hook": "XLA averages gradients within the graph: remove it",
        },
        evidence="docs",
    ),
)
