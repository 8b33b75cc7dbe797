"""The module that migrated scripts import: ``from xla_migrate import runtime as xla``.

One script for every accelerator: through torch_xla on TPU, Trainium and XLA:CPU, and eagerly on
CUDA, on torch's other devices, and on the CPU. The backend is chosen at first use; importing this
starts no device and does not import torch_xla. XLA_MIGRATE_BACKEND=eager or =torch_xla decides.

The names that a script of the common kind needs are imported with this module. The others (replicas'
collectives and wrappers, what stands for parts of apex, timm and transformers) are imported when
they are first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from . import patches
from ._backend import uses_torch_xla
from .checkpoints import clone_state, load, move_state, save
from .compiling import cache_report, line_report
from .deferred.reading import arrived, computed, fill, flush, item, later, stop
from .devices import (
    device_capability,
    device_count,
    device_index,
    device_name,
    device_properties,
    device_type,
    is_accelerator,
    is_available,
    is_initialized,
    set_device,
    supports_fused,
    xla_device,
)
from .graphs import checkpoint, checkpoint_sequential, compile, inference_mode
from .indexing.losses import masked_loss
from .indexing.masks import assign, masked_count, masked_mean, masked_share, masked_sum
from .indexing.positions import narrow, put
from .loading.loader import MpDeviceLoader
from .precision import autocast, is_bf16_supported, set_cudnn, set_float32_matmul_precision
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
from .services import Event, mem_get_info, memory_info, metrics, reset_peak_memory_stats
from .step import mark_step, optimizer_step, reduce_gradients, synchronize

if TYPE_CHECKING:
    from .compat.accelerate import patch_accelerate
    from .compat.accelerate_checkpoints import gather_lists, load_state, save_model, save_state
    from .compat.accelerate_pipelines import prepare_pippy
    from .compat.apex import NovoGrad, cast_inputs, mixed_precision
    from .compat.by_hand import (
        counters,
        distributed_checkpoint,
        fsdp,
        helpers,
        loops,
        profiler,
        spmd,
    )
    from .compat.deepspeed_optimizers import BoundedLamb
    from .compat.grad_scaler import GradScaler
    from .compat.ignite import patch_ignite
    from .compat.lightning import patch_lightning
    from .compat.pretrained import save_lora, save_pretrained
    from .compat.timm import ModelEmaV3, NativeScaler, init_distributed_device
    from .compat.torch_xla import (
        add_step_closure,
        all_gathered,
        all_reduced,
        broadcast_master_param,
        marked_step,
        master_print,
        mesh_reduce,
    )
    from .compiling.options import compiler_options
    from .device_functions import device_module
    from .profiling.recording import profile, range_pop, range_push
    from .replicas.collectives import (
        all_gather,
        all_gather_into_tensor,
        all_reduce,
        all_to_all,
        all_to_all_single,
        barrier,
        broadcast,
        gather,
        new_group,
        reduce,
        reduce_scatter,
        reduce_scatter_tensor,
        scatter,
    )
    from .replicas.data_parallel import DistributedDataParallel
    from .replicas.normalization import SyncBatchNorm, convert_sync_batchnorm
    from .replicas.object_collectives import (
        all_gather_object,
        broadcast_object_list,
        gather_object,
        scatter_object_list,
    )
    from .replicas.single_process import DataParallel
    from .replicas.spmd import data_parallel_size, use_spmd
    from .replicas.state_dicts import (
        get_model_state_dict,
        get_optimizer_state_dict,
        get_state_dict,
        set_model_state_dict,
        set_optimizer_state_dict,
        set_state_dict,
    )
    from .sparse_matrices import sparse
    from .torch_xla.fully_sharded import FullyShardedDataParallel, fully_shard
    from .torch_xla.lbfgs import LBFGS
    from .torch_xla.meshes import init_device_mesh

if uses_torch_xla():
    patches.apply("import")
cache_report.report_at_exit()
line_report.report_at_exit()

__all__ = [
    "LBFGS",
    "BoundedLamb",
    "CheckpointError",
    "DataParallel",
    "DistributedDataParallel",
    "Event",
    "FullyShardedDataParallel",
    "GradScaler",
    "ModelEmaV3",
    "MpDeviceLoader",
    "NativeScaler",
    "NovoGrad",
    "SyncBatchNorm",
    "add_step_closure",
    "all_gather",
    "all_gather_into_tensor",
    "all_gather_object",
    "all_gathered",
    "all_reduce",
    "all_reduced",
    "all_to_all",
    "all_to_all_single",
    "arrived",
    "assign",
    "autocast",
    "barrier",
    "broadcast",
    "broadcast_master_param",
    "broadcast_object_list",
    "cast_inputs",
    "checkpoint",
    "checkpoint_sequential",
    "clone_state",
    "compile",
    "compiler_options",
    "computed",
    "convert_sync_batchnorm",
    "counters",
    "data_parallel_size",
    "destroy_process_group",
    "device_capability",
    "device_count",
    "device_index",
    "device_module",
    "device_name",
    "device_properties",
    "device_type",
    "distributed_checkpoint",
    "fill",
    "flush",
    "fork_rng",
    "fsdp",
    "fully_shard",
    "gather",
    "gather_lists",
    "gather_object",
    "generator",
    "get_model_state_dict",
    "get_optimizer_state_dict",
    "get_rng_state",
    "get_rng_state_all",
    "get_state_dict",
    "helpers",
    "inference_mode",
    "init_device_mesh",
    "init_distributed_device",
    "init_process_group",
    "is_accelerator",
    "is_available",
    "is_bf16_supported",
    "is_initialized",
    "is_master",
    "item",
    "later",
    "latest",
    "launch",
    "load",
    "load_state",
    "local_rank",
    "loops",
    "manual_seed",
    "mark_step",
    "marked_step",
    "masked_count",
    "masked_loss",
    "masked_mean",
    "masked_share",
    "masked_sum",
    "master_print",
    "mem_get_info",
    "memory_info",
    "mesh_reduce",
    "metrics",
    "mixed_precision",
    "move_state",
    "narrow",
    "new_group",
    "on_cpu",
    "optimizer_step",
    "patch_accelerate",
    "patch_ignite",
    "patch_lightning",
    "prepare_pippy",
    "profile",
    "profiler",
    "put",
    "range_pop",
    "range_push",
    "rank",
    "reduce",
    "reduce_gradients",
    "reduce_scatter",
    "reduce_scatter_tensor",
    "rendezvous",
    "reset_peak_memory_stats",
    "save",
    "save_lora",
    "save_model",
    "save_pretrained",
    "save_state",
    "scatter",
    "scatter_object_list",
    "set_cudnn",
    "set_device",
    "set_float32_matmul_precision",
    "set_model_state_dict",
    "set_optimizer_state_dict",
    "set_rng_state",
    "set_rng_state_all",
    "set_state_dict",
    "sparse",
    "spmd",
    "stop",
    "supports_fused",
    "synchronize",
    "use_spmd",
    "world_size",
    "xla_device",
]

# Where the names are that are imported on request.
_LAZY = {
    "compat.accelerate": "patch_accelerate",
    "compat.accelerate_checkpoints": "gather_lists load_state save_model save_state",
    "compat.accelerate_pipelines": "prepare_pippy",
    "compat.by_hand": "counters distributed_checkpoint fsdp helpers loops profiler spmd",
    "compat.apex": "NovoGrad cast_inputs mixed_precision",
    "compat.deepspeed_optimizers": "BoundedLamb",
    "compat.export": "on_cpu",
    "compat.grad_scaler": "GradScaler",
    "compat.ignite": "patch_ignite",
    "compat.lightning": "patch_lightning",
    "compat.pretrained": "save_lora save_pretrained",
    "compiling.options": "compiler_options",
    "device_functions": "device_module",
    "compat.timm": "ModelEmaV3 NativeScaler init_distributed_device",
    "compat.torch_xla": "add_step_closure all_gathered all_reduced broadcast_master_param marked_step "
    "master_print mesh_reduce",
    "profiling.recording": "profile range_pop range_push",
    "replicas.collectives": "all_gather all_gather_into_tensor all_reduce all_to_all all_to_all_single barrier "
    "broadcast gather new_group reduce reduce_scatter reduce_scatter_tensor scatter",
    "replicas.object_collectives": "all_gather_object broadcast_object_list gather_object scatter_object_list",
    "replicas.normalization": "convert_sync_batchnorm",
    "replicas.single_process": "DataParallel",
    "replicas.spmd": "data_parallel_size use_spmd",
    "replicas.state_dicts": "get_model_state_dict get_optimizer_state_dict get_state_dict set_model_state_dict "
    "set_optimizer_state_dict set_state_dict",
    "sparse_matrices": "sparse",
}
_HOMES = {name: f".{home}" for home, names in _LAZY.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        found = globals()[name] = getattr(importlib.import_module(_HOMES[name], __name__), name)
        return found
    home = _home_for_this_device(name)
    if home is not None:
        return getattr(importlib.import_module(home, __name__), name)
    import difflib

    close = difflib.get_close_matches(name, __all__, n=1)
    hint = f"; did you mean {close[0]}?" if close else f". It has: {', '.join(__all__)}"
    raise AttributeError(f"xla_migrate.runtime has no {name!r}{hint}")


def _home_for_this_device(name: str) -> str | None:
    """Return the module of a class: torch's own if torch's works on this device, else the runtime's."""
    if name == "DistributedDataParallel":
        return ".replicas.data_parallel" if uses_torch_xla() else ".eager.data_parallel"
    if name == "init_device_mesh":
        return f".{'torch_xla' if uses_torch_xla() else 'eager'}.meshes"
    if name in ("FullyShardedDataParallel", "fully_shard"):
        return f".{'torch_xla' if uses_torch_xla() else 'eager'}.fully_sharded"
    if name == "LBFGS":
        return ".torch_xla.lbfgs" if uses_torch_xla() else "torch.optim"
    if name == "SyncBatchNorm":
        return "torch.nn" if device_type() == "cuda" else ".replicas.normalization"
    return None
