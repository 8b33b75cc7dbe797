"""What migrated scripts import: ``from xla_migrate import runtime as xla``.

One script for every accelerator: through torch_xla on TPU, Trainium and XLA:CPU, and eagerly on
CUDA, on torch's other devices, and on the CPU. The backend is chosen at first use; importing this
starts no device and does not import torch_xla. XLA_MIGRATE_BACKEND=eager or =torch_xla decides.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ._parameters import keep_identity
from .checkpoints import clone_state, load, save
from .devices import (
    device_count,
    device_name,
    device_type,
    is_accelerator,
    is_available,
    xla_device,
)
from .graphs import checkpoint, checkpoint_sequential, compile, inference_mode, narrow
from .loader import MpDeviceLoader
from .precision import autocast, is_bf16_supported, set_cudnn, set_float32_matmul_precision
from .processes import (
    all_gather,
    all_gather_object,
    all_reduce,
    broadcast,
    broadcast_object_list,
    destroy_process_group,
    init_process_group,
    is_master,
    launch,
    local_rank,
    rank,
    reduce,
    rendezvous,
    world_size,
)
from .randomness import (
    get_rng_state,
    get_rng_state_all,
    manual_seed,
    set_rng_state,
    set_rng_state_all,
)
from .services import Event, memory_info, metrics, reset_peak_memory_stats
from .step import mark_step, optimizer_step, reduce_gradients, synchronize

if TYPE_CHECKING:
    from ._data_parallel import DistributedDataParallel

keep_identity()

__all__ = [
    "DistributedDataParallel",
    "Event",
    "MpDeviceLoader",
    "all_gather",
    "all_gather_object",
    "all_reduce",
    "autocast",
    "broadcast",
    "broadcast_object_list",
    "checkpoint",
    "checkpoint_sequential",
    "clone_state",
    "compile",
    "destroy_process_group",
    "device_count",
    "device_name",
    "device_type",
    "get_rng_state",
    "get_rng_state_all",
    "inference_mode",
    "init_process_group",
    "is_accelerator",
    "is_available",
    "is_bf16_supported",
    "is_master",
    "launch",
    "load",
    "local_rank",
    "manual_seed",
    "mark_step",
    "memory_info",
    "metrics",
    "narrow",
    "optimizer_step",
    "rank",
    "reduce",
    "reduce_gradients",
    "rendezvous",
    "reset_peak_memory_stats",
    "save",
    "set_cudnn",
    "set_float32_matmul_precision",
    "set_rng_state",
    "set_rng_state_all",
    "synchronize",
    "world_size",
    "xla_device",
]


def __getattr__(name: str) -> Any:
    if name == "DistributedDataParallel":
        return _distributed_data_parallel()
    import difflib

    close = difflib.get_close_matches(name, __all__, n=1)
    hint = f"; did you mean {close[0]}?" if close else f". It has: {', '.join(__all__)}"
    raise AttributeError(f"xla_migrate.runtime has no {name!r}{hint}")


def _distributed_data_parallel() -> Any:
    """Torch's own class on eager backends, so that ``isinstance`` holds there too."""
    from ._backend import uses_torch_xla

    if uses_torch_xla():
        from ._data_parallel import DistributedDataParallel

        return DistributedDataParallel
    from torch.nn.parallel import DistributedDataParallel as TorchDataParallel

    return TorchDataParallel
