"""What migrated scripts import: ``from xla_migrate import runtime as xla``.

One script for every accelerator: through torch_xla on TPU, Trainium and XLA:CPU, and eagerly on
CUDA, on torch's other devices, and on the CPU. The backend is chosen at first use; importing this
starts no device and does not import torch_xla. XLA_MIGRATE_BACKEND=eager or =torch_xla decides.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ._numpy import give_single_for_bfloat16
from ._parameters import keep_identity
from ._single_process import DataParallel
from .checkpoints import clone_state, load, save
from .collectives import (
    all_gather,
    all_gather_into_tensor,
    all_gather_object,
    all_reduce,
    all_to_all,
    all_to_all_single,
    barrier,
    broadcast,
    broadcast_object_list,
    gather,
    gather_object,
    new_group,
    reduce,
    reduce_scatter,
    reduce_scatter_tensor,
    scatter,
    scatter_object_list,
)
from .devices import (
    device_count,
    device_index,
    device_name,
    device_type,
    is_accelerator,
    is_available,
    set_device,
    xla_device,
)
from .graphs import checkpoint, checkpoint_sequential, compile, inference_mode, narrow, put
from .loader import MpDeviceLoader
from .normalization import convert_sync_batchnorm
from .optimizers import NovoGrad, supports_fused
from .precision import (
    autocast,
    is_bf16_supported,
    mixed_precision,
    set_cudnn,
    set_float32_matmul_precision,
)
from .pretrained import save_pretrained
from .processes import (
    destroy_process_group,
    init_process_group,
    is_master,
    launch,
    local_rank,
    rank,
    rendezvous,
    world_size,
)
from .randomness import (
    fork_rng,
    generator,
    get_rng_state,
    get_rng_state_all,
    manual_seed,
    set_rng_state,
    set_rng_state_all,
)
from .resuming import CheckpointError, latest
from .scaling import NativeScaler
from .services import Event, mem_get_info, memory_info, metrics, reset_peak_memory_stats
from .spmd import data_parallel_size, use_spmd
from .step import mark_step, optimizer_step, reduce_gradients, synchronize
from .timms import ModelEmaV3, init_distributed_device

if TYPE_CHECKING:
    from ._data_parallel import DistributedDataParallel
    from ._xla_fully_sharded import FullyShardedDataParallel, fully_shard
    from .normalization import SyncBatchNorm

keep_identity()
give_single_for_bfloat16()

__all__ = [
    "CheckpointError",
    "DataParallel",
    "DistributedDataParallel",
    "Event",
    "FullyShardedDataParallel",
    "ModelEmaV3",
    "MpDeviceLoader",
    "NativeScaler",
    "NovoGrad",
    "SyncBatchNorm",
    "all_gather",
    "all_gather_into_tensor",
    "all_gather_object",
    "all_reduce",
    "all_to_all",
    "all_to_all_single",
    "autocast",
    "barrier",
    "broadcast",
    "broadcast_object_list",
    "checkpoint",
    "checkpoint_sequential",
    "clone_state",
    "compile",
    "convert_sync_batchnorm",
    "data_parallel_size",
    "destroy_process_group",
    "device_count",
    "device_index",
    "device_name",
    "device_type",
    "fork_rng",
    "fully_shard",
    "gather",
    "gather_object",
    "generator",
    "get_rng_state",
    "get_rng_state_all",
    "inference_mode",
    "init_distributed_device",
    "init_process_group",
    "is_accelerator",
    "is_available",
    "is_bf16_supported",
    "is_master",
    "latest",
    "launch",
    "load",
    "local_rank",
    "manual_seed",
    "mark_step",
    "mem_get_info",
    "memory_info",
    "metrics",
    "mixed_precision",
    "narrow",
    "new_group",
    "optimizer_step",
    "put",
    "rank",
    "reduce",
    "reduce_gradients",
    "reduce_scatter",
    "reduce_scatter_tensor",
    "rendezvous",
    "reset_peak_memory_stats",
    "save",
    "save_pretrained",
    "scatter",
    "scatter_object_list",
    "set_cudnn",
    "set_device",
    "set_float32_matmul_precision",
    "set_rng_state",
    "set_rng_state_all",
    "supports_fused",
    "synchronize",
    "use_spmd",
    "world_size",
    "xla_device",
]


def __getattr__(name: str) -> Any:
    if name in ("DistributedDataParallel", "SyncBatchNorm"):
        return _class_for_this_device(name)
    if name in ("FullyShardedDataParallel", "fully_shard"):
        return getattr(_fully_sharded(), name)
    import difflib

    close = difflib.get_close_matches(name, __all__, n=1)
    hint = f"; did you mean {close[0]}?" if close else f". It has: {', '.join(__all__)}"
    raise AttributeError(f"xla_migrate.runtime has no {name!r}{hint}")


def _fully_sharded() -> Any:
    """The module with these names: torch's own where torch's work."""
    from ._backend import uses_torch_xla

    if uses_torch_xla():
        from . import _xla_fully_sharded

        return _xla_fully_sharded
    from . import _eager_fully_sharded

    return _eager_fully_sharded


def _class_for_this_device(name: str) -> Any:
    """Torch's own class where torch's works, else one of its kind: ``isinstance`` holds."""
    from torch import nn

    from . import _data_parallel, _eager_data_parallel, normalization
    from ._backend import uses_torch_xla

    if name == "SyncBatchNorm":
        return nn.SyncBatchNorm if device_type() == "cuda" else normalization.SyncBatchNorm
    home: Any = _data_parallel if uses_torch_xla() else _eager_data_parallel
    return home.DistributedDataParallel
