"""Every name of torch.distributed is rewritten, named, or right as it stands: one that is new has to be looked at."""

from __future__ import annotations

import inspect
import types
import warnings
from importlib import import_module

import pytest
import torch.distributed as dist

from xla_codemods.analysis.training.ranks.guards import COLLECTIVES
from xla_codemods.engine import check
from xla_migrate import runtime

from ...helpers import findings, migrated

HEAD = """import torch
import torch.distributed as dist
from torch.distributed import nn
dist.init_process_group("nccl")
"""

# Questions, stores, options and errors; what goes through the process group, which is the runtime's
# (tests/runtime/replicas/test_replicas.py runs those that move something); and what needs other names that are found.
RIGHT = set(
    (
        "AllToAllOptions AllreduceCoalescedOptions AllreduceOptions Backend BackendConfig BarrierOptions BroadcastOptions "
        "BuiltinCommHookType DebugLevel DeviceMesh DistBackendError DistError DistNetworkError DistStoreError FileStore "
        "GatherOptions GradBucket GroupMember HashStore Logger P2POp PrefixStore ProcessGroup ProcessGroupGloo "
        "QueueEmptyError ReduceOp ReduceOptions ReduceScatterOptions Reducer ScatterOptions Store TCPStore Work breakpoint "
        "get_backend get_backend_config get_debug_level get_global_rank get_group_rank get_node_local_rank get_pg_count "
        "get_process_group_ranks get_rank get_world_size group init_device_mesh is_available is_backend_available "
        "is_gloo_available is_initialized is_mpi_available is_torchelastic_launched is_ucc_available is_xccl_available "
        "monitored_barrier new_subgroups new_subgroups_by_enumeration recv_object_list reduce_op "
        "register_rendezvous_handler rendezvous send_object_list set_debug_level set_debug_level_from_env supports_complex "
        # private, and about tensors in no way
        "_Backend _CoalescingManager _ControlCollectives _DistributedPdb _StoreCollectives _Work "
        "_compute_bucket_assignment_by_size _create_process_group_wrapper _create_store_from_options "
        "_get_process_group_name _rank_not_in_group _register_builtin_comm_hook _register_comm_hook _remote_device "
        "_test_python_store _time_estimator _verify_params_across_processes"
    ).split()
)
# With their gradients: see the same test.
DIFFERENTIABLE = set(
    "all_gather all_reduce all_to_all all_to_all_single broadcast gather reduce reduce_scatter scatter".split()
)


def _names_of(module: types.ModuleType) -> set[str]:
    found = set()
    for name in dir(module):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            what = getattr(module, name)
            home = getattr(what, "__module__", None) or ""
            if callable(what) and home.startswith(("torch.distributed", "torch._C._distributed")):
                found.add(name)
    return found


def _is_told(call: str) -> bool:
    source = HEAD + call
    return any(line == source.count("\n") + 1 for line, _ in findings(source))


def test_every_name_of_torch_distributed_is_told_or_right() -> None:
    left = {name for name in _names_of(dist) if not _is_told(f"dist.{name}(x)")}
    assert left <= RIGHT, "what becomes of these on XLA?"


def test_every_name_of_its_differentiable_collectives_is_told_or_right() -> None:
    module = import_module("torch.distributed.nn.functional")
    public = {name for name in _names_of(module) if name.lstrip("_")[0].islower()} - {"group"}
    left = {n for n in public if not _is_told(f"torch.distributed.nn.functional.{n}(x)")}
    assert left == DIFFERENTIABLE


@pytest.mark.parametrize("name", sorted(COLLECTIVES))
def test_the_runtimes_collectives_have_torchs_arguments(name: str) -> None:
    ours = list(inspect.signature(getattr(runtime, name)).parameters)
    torchs = list(inspect.signature(getattr(dist, name)).parameters)
    assert ours[: len(torchs)][:3] == torchs[:3] or name == "new_group"
    place = COLLECTIVES[name]
    assert place == (torchs.index("group") if "group" in torchs else None)


def test_older_names_are_the_newer_ones() -> None:
    result = migrated(HEAD + "dist._all_gather_base(out, x, group=g)\n")
    assert "xla.all_gather_into_tensor(out, x, group=g)" in result
    result = migrated(HEAD + "dist._reduce_scatter_base(out, x)\n")
    assert "xla.reduce_scatter_tensor(out, x)" in result


@pytest.mark.parametrize(
    "line",
    [
        "import torch.distributed._functional_collectives as funcol",
        "from torch.distributed._functional_collectives import all_reduce",
        "from torch.distributed import _functional_collectives as funcol",
    ],
)
def test_functional_collectives_go_past_the_group(line: str) -> None:
    assert (5, "XLA602") in findings(f"{HEAD}{line}\n")
    on_the_host = HEAD.replace("nccl", "gloo")
    assert (5, "XLA602") not in findings(f"{on_the_host}{line}\n")


def test_what_to_do_instead_fits_the_name() -> None:
    told = [f.message for f in check(f"{HEAD}dist.all_reduce_coalesced([x])\n".encode())]
    assert any("call `all_reduce` for each tensor" in message for message in told)


@pytest.mark.parametrize(
    ("line", "becomes"),
    [
        ("f = partial(dist.all_reduce, group=side)", "f = partial(xla.all_reduce, group=side)"),
        ("f = dist.gather if rank else dist.reduce", "f = xla.gather if rank else xla.reduce"),
        ("run(dist.broadcast)", "run(xla.broadcast)"),
        ("table = {'all': dist.all_to_all}", "table = {'all': xla.all_to_all}"),
        ("self.collective = dist._all_gather_base", "self.collective = xla.all_gather_into_tensor"),
    ],
)
def test_a_collective_that_is_handed_on_is_the_runtimes(line: str, becomes: str) -> None:
    assert becomes in migrated(HEAD + line + "\n")


@pytest.mark.parametrize(
    "lines",
    [
        "before = dist.all_reduce\ndist.all_reduce = counted",  # which the runtime's would call
        "patch.object(dist, 'all_reduce')",
        "op = dist.P2POp(dist.isend, x, 1)",
    ],
)
def test_what_is_patched_stays(lines: str) -> None:
    assert lines in migrated(HEAD + lines + "\n")


def test_what_has_no_counterpart_is_told_where_it_is_handed_on() -> None:
    assert _is_told("f = partial(dist.send, dst=1)")
    assert _is_told("f = dist.all_reduce_coalesced")
