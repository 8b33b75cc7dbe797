"""Features that only torch_xla has, under its own names: ``xla.spmd.Mesh``, ``xla.profiler.Trace``.

Scripts that were written for torch_xla by hand go on using it (`xla-migrate --from torch_xla`). On XLA each name is
torch_xla's own object, so that nothing changes. Elsewhere it is the stand-in of this folder: a mesh is of this process's one
device, a trace is torch.profiler's, and what has no counterpart is refused, or says so once.
"""

from __future__ import annotations

import importlib
from typing import Any

from ..._backend import backend, uses_torch_xla

_PARALLEL = "torch_xla.distributed"
# What knows processes by itself, and would take each one of a rehearsal for the only one.
_REHEARSED = ("XlaFullyShardedDataParallel",)


class Namespace:
    """Names of torch_xla's, each of which is looked up on request."""

    def __init__(self, name: str, about: str, stand_ins: str, homes: dict[str, str]) -> None:
        self.__name__ = name
        self.__doc__ = about
        self._stand_ins = stand_ins
        self._homes = {each: home for home, names in homes.items() for each in names.split()}

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name not in self._homes:
            raise AttributeError(f"xla.{self.__name__} has no {name!r}: {', '.join(dir(self))}")
        home = self._homes[name]
        if not home:
            from . import utilities as found
        elif uses_torch_xla():
            importlib.import_module("...torch_xla.modules", __name__)  # it says what is missing
            if name in _REHEARSED and _rehearses():
                from ...torch_xla import rehearsed_shards  # as a statement: copies follow it

                return getattr(rehearsed_shards, name)
            found = importlib.import_module(home)
        else:
            found = importlib.import_module(f".{self._stand_ins}", __name__)
        return getattr(found, name)

    def __dir__(self) -> list[str]:
        return sorted(self._homes)


def _rehearses() -> bool:
    from ...torch_xla.groups import rehearses

    return rehearses() and backend().replica()[2] > 1


spmd = Namespace(
    "spmd",
    "Meshes and shardings of SPMD, as ``torch_xla.distributed.spmd`` has them.",
    "meshes",
    {
        f"{_PARALLEL}.spmd": "HybridMesh Mesh ShardingSpec annotate_custom_sharding apply_backward_optimization_barrier "
        "clear_sharding get_1d_mesh get_global_mesh mark_sharding mark_sharding_with_gradients set_global_mesh",
        f"{_PARALLEL}.fsdp": "checkpoint_module",
        f"{_PARALLEL}.fsdp.wrap": "always_wrap_policy lambda_auto_wrap_policy recursive_wrap "
        "size_based_auto_wrap_policy transformer_auto_wrap_policy",
        f"{_PARALLEL}.spmd.xla_sharding": "apply_xla_patch_to_nn_linear",
        "torch_xla.experimental.spmd_fully_sharded_data_parallel": "SpmdFullyShardedDataParallel",
        "torch_xla.runtime": "addressable_runtime_device_count global_runtime_device_attributes "
        "global_runtime_device_count is_spmd use_spmd",
    },
)
fsdp = Namespace(
    "fsdp",
    "Weights that are split over processes, as ``torch_xla.distributed.fsdp`` has them.",
    "shards",
    {
        f"{_PARALLEL}.fsdp": "XlaFullyShardedDataParallel consolidate_sharded_model_checkpoints "
        "consolidate_sharded_state_dicts",
    },
)
distributed_checkpoint = Namespace(
    "distributed_checkpoint",
    "Checkpoints of numbered steps, as ``torch_xla.experimental.distributed_checkpoint`` has them.",
    "step_checkpoints",
    {
        "torch_xla.experimental.distributed_checkpoint": "CheckpointManager SPMDLoadPlanner SPMDSavePlanner prime_optimizer",
    },
)
profiler = Namespace(
    "profiler",
    "Traces and their server, as ``torch_xla.debug.profiler`` has them.",
    "traces",
    {
        "torch_xla.debug.profiler": "StepTrace Trace start_server start_trace stop_trace trace trace_detached trace_me",
    },
)
counters = Namespace(
    "counters",
    "Counters of the lazy tensors, as ``torch_xla.debug.metrics`` has them; eager backends count nothing.",
    "counts",
    {
        "torch_xla.debug.metrics": "clear_all clear_counters clear_metrics counter_names counter_value "
        "executed_fallback_ops metric_data metric_names metrics_report short_metrics_report",
    },
)
loops = Namespace(
    "loops",
    "Loops within one graph, as ``torch_xla.experimental`` has them; plain loops on eager backends.",
    "plain_loops",
    {
        "torch_xla.experimental.assume_pure": "assume_pure",
        "torch_xla.experimental.gradient_accumulation": "gradient_accumulation",
        "torch_xla.experimental.scan": "scan",
        "torch_xla.experimental.scan_layers": "scan_layers",
    },
)
helpers = Namespace(
    "helpers",
    "What else scripts for torch_xla take from it: rates, wrappers, kinds of devices, logs.",
    "utilities",
    {
        # Which process does what is the runtime's to say, on every backend.
        "": "do_on_ordinals process_count process_index",
        "torch_xla": "devices real_devices",
        "torch_xla.core.xla_model": "RateTracker get_xla_supported_devices optimization_barrier_ send_cpu_data_to_device "
        "unlazy xla_device_hw xla_device_kind xla_real_devices",
        f"{_PARALLEL}.xla_multiprocessing": "MpModelWrapper MpSerialExecutor",
        "torch_xla.experimental.eager": "eager_mode eager_mode_context is_eager_mode",
        "torch_xla.runtime": "device_type host_index initialize_cache is_bf16_supported "
        "set_device_type",
        "torch_xla.test.test_utils": "close_summary_writer get_summary_writer now print_test_update "
        "print_training_update write_to_summary",
        "torch_xla.utils.utils": "FnDataGenerator SampleGenerator check_env_flag eprint getenv_as parallel_work",
    },
)
NAMESPACES = {
    each.__name__: each
    for each in (spmd, fsdp, distributed_checkpoint, profiler, counters, loops, helpers)
}
