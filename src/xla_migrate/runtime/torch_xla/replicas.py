"""The replicas of the torch_xla backend: one for each accelerator, or processes on the CPU.

On XLA:CPU torch_xla makes every process rank 0 of 1, silently (fact 3.10). Several processes
there rehearse: their ranks are torchrun's, or the launcher's, and what they tell each other goes
through gloo on host copies (5.1).
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from .. import _launchers
from .._backend import AGENT
from .._launchers import replica_of_environment
from ..replicas.flat import flattened
from . import groups
from .groups import fetch, rehearses, upload
from .marks import mark
from .modules import met, torch_xla, xm, xr

# How long a rehearsal waits for replicas that may not come.
_PATIENCE = timedelta(seconds=60)

if replica_of_environment()[2] > 1 and rehearses():
    os.environ["CPU_NUM_DEVICES"] = "1"  # One for each process.

# Which


def replica() -> tuple[int, int, int]:
    """Rank, local rank and world size. Does not initialise the device."""
    if rehearses():
        return (0, 0, 1) if xr.is_spmd() else replica_of_environment()
    if is_initialized():
        return _replica_of_runtime()
    return replica_of_environment()


@functools.cache
def _replica_of_runtime() -> tuple[int, int, int]:
    """Asked once: it stays the same, and every step asks."""
    return xr.global_ordinal(), xr.local_ordinal(), xr.world_size()


def own_count() -> int:
    """Return the number of processes that a launch starts on the CPU, or that a launcher has started."""
    return int(os.environ.get("CPU_NUM_DEVICES") or _launchers.local_size() or 1)


# How they start

_is_launched = False


def is_initialized() -> bool:
    """Return True if this process has used the device."""
    return bool(torch_xla._XLAC._xla_runtime_is_initialized())


def may_launch(count: Callable[[], int]) -> bool:
    """Return True if this process may call ``launch`` later: it is alone on a host with several devices."""
    if _is_launched or is_initialized() or xr.is_spmd():
        return False
    return replica_of_environment()[2] == 1 and count() > 1


def spawn(function: Callable[..., Any], args: Any, count: int, options: dict[str, Any]) -> Any:
    if is_initialized():
        raise RuntimeError(
            "launch(): this process has used the XLA device, and the new processes could not: "
            "move everything that uses the device into the function that launch starts"
        )
    if rehearses():
        rehearsed = _Rehearsed(function, options["nprocs"])
        return torch.multiprocessing.spawn(rehearsed, args, **options)  # type: ignore[attr-defined,no-untyped-call]
    if options["nprocs"] != count:
        raise ValueError(
            f"launch(nprocs={options['nprocs']}): XLA starts one process for each of the "
            f"{count} devices of this host, or one"
        )
    if not options["join"]:
        raise ValueError("launch(join=False): XLA waits for its processes")
    return torch_xla.launch(_Process(function), args, start_method=options["start_method"])


class _Process:
    """The function of a launched process. torch_xla passes the rank among all hosts (1.8)."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    def __call__(self, ordinal: int, *args: Any) -> None:
        global _is_launched
        _is_launched = True
        self._function(xr.local_ordinal(), *args)


class _Rehearsed(_launchers.Told):
    """The function that a process of a rehearsal runs; each process has a separate CPU device."""

    def __call__(self, rank: int, *args: Any) -> None:
        os.environ["CPU_NUM_DEVICES"] = "1"
        super().__call__(rank, *args)


# Their group

_started_unasked = False


def init_process_group(options: dict[str, Any]) -> None:
    """``torch.distributed.init_process_group`` for several replicas."""
    global _started_unasked
    if _started_unasked and dist.is_initialized():
        _started_unasked = False  # The group that the script requests exists already.
        return
    groups.register()
    kept = {name: options[name] for name in _OPTIONS if options.get(name) is not None}
    if not rehearses():
        dist.init_process_group(groups.NAME, init_method="xla://", **kept)
        _check_who(options.get("rank", -1), options.get("world_size", -1))
        return
    kept |= {name: options[name] for name in _OF_CALLER if options.get(name) is not None}
    if "store" not in kept and kept.get("init_method", "env://").startswith("env://"):
        if _launchers.has_agent():
            kept = {**_agents(), "timeout": kept.get("timeout")}
    dist.init_process_group(groups.NAME, **kept)


def _check_who(rank: int, size: int) -> None:
    """Raise if the script counts replicas in another way than torch_xla.

    Each of them would train alone, or two would be its master and torch_xla's, with one writing
    what the other has to write.
    """
    own = (xr.global_ordinal(), xr.world_size())
    if (rank, size) != (rank if rank < 0 else own[0], size if size < 0 else own[1]):
        dist.destroy_process_group()
        raise RuntimeError(
            f"init_process_group(rank={rank}, world_size={size}), but torch_xla makes this process "
            f"rank {own[0]} of {own[1]}. Use xla.rank() and xla.world_size(), and start one "
            "process per device with torchrun (under SLURM: srun torchrun, one task per node)"
        )


def _agents() -> dict[str, Any]:
    """Return the store of torchrun's agent, with a separate prefix per restart, without dead addresses."""
    rank, _, size = replica_of_environment()
    address, port = AGENT["MASTER_ADDR"], int(AGENT["MASTER_PORT"])
    store: Any = dist.TCPStore(address, port, size, is_master=False)  # type: ignore[attr-defined]
    attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    own = dist.PrefixStore(f"xla_migrate/{attempt}", store)  # type: ignore[attr-defined]
    return {"store": own, "rank": rank, "world_size": size}


_OPTIONS = ("timeout",)
_OF_CALLER = ("init_method", "rank", "world_size", "store", "group_name")


def ensure_group() -> None:
    """Torch_xla's own scripts need no process group, and rehearsals do."""
    global _started_unasked
    if not dist.is_initialized():
        init_process_group({})
        _started_unasked = True


def rendezvous(tag: str) -> None:
    if rehearses():
        ensure_group()
        mark()
        dist.barrier()
    else:
        xm.rendezvous(tag)


# What they tell each other


def collective(name: str, *args: Any, **kwargs: Any) -> Any:
    """``torch.distributed``'s collective of that name."""
    ensure_group()
    function = getattr(dist, name)
    if name == "new_group" or _is_ours(kwargs.get("group")):
        return function(*args, **kwargs)
    return groups.on_copies(function, args, kwargs)


def _is_ours(group: Any) -> bool:
    """A script may have made a group of gloo's by itself."""
    return hasattr(dist.group.WORLD if group is None else group, "host")


def total(tensors: Sequence[torch.Tensor], scale: float, group: Any = None) -> None:
    """The tensors become their sum over the replicas times ``scale``, in place."""
    ensure_group()
    if rehearses():
        _check_same_amount(tensors, group)
        hosts = _on_host(tensors)
        for flat in flattened(hosts):
            dist.all_reduce(flat.values, group=group)
            flat.give_back(scale)
        _replace(tensors, hosts)
    else:
        _check_everyone_comes(tensors, group)
        _total_in_graph(list(tensors), scale, group)
    _note_unlaunched()


_met: set[tuple[Any, ...]] = set()


def _check_everyone_comes(tensors: Sequence[torch.Tensor], group: Any) -> None:
    """On a device, a replica with other gradients than the others' would wait forever (1.21).

    So if this replica averages something for the first time, it first meets the others on the
    host, for a limited time. If all continue as before, there is no extra meeting.
    """
    what = (group, tuple(tensor.numel() for tensor in tensors))
    if what in _met:
        return
    if _is_ours(group):
        ours: Any = dist.group.WORLD if group is None else group
        host = ours.host
        _meet(
            host,
            host.timeout,
            "averages gradients that it did not average before",
            "If some replicas do not use all parameters, wrap the model in "
            "DistributedDataParallel(find_unused_parameters=True)",
        )
        _check_same_amount(tensors, group)
    _met.add(what)


def _check_same_amount(tensors: Sequence[torch.Tensor], group: Any) -> None:
    """Gloo would mix them up; a device would wait forever (1.21)."""
    amount = sum(tensor.numel() for tensor in tensors)
    most = torch.tensor([amount, -amount])
    dist.all_reduce(most, op=dist.ReduceOp.MAX, group=group)
    if most.tolist() != [amount, -amount]:
        raise RuntimeError(
            f"replicas average different gradients: {amount} numbers here, {-int(most[1])} to "
            f"{int(most[0])} elsewhere; on a device the job would hang. If some replicas do not use "
            "all parameters, wrap the model in "
            "DistributedDataParallel(find_unused_parameters=True)"
        )


def _total_in_graph(tensors: list[torch.Tensor], scale: float, group: Any) -> None:
    among = {"groups": getattr(group, "_mesh", None) or None, "pin_layout": True}
    bucket = int(os.environ.get("ALLREDUCE_GRADIENTS_BUCKET_SIZE_MB") or 0)
    if bucket:
        reverse = tensors[::-1]
        xm.all_reduce_bucketized_gradients(reverse, scale, bucket_cap_mb=bucket, **among)
    else:
        xm.all_reduce(xm.REDUCE_SUM, tensors, scale=scale, **among)


@torch.no_grad()
def broadcast(tensors: Sequence[torch.Tensor], src: int, group: Any = None) -> None:
    """Replace the tensors with the tensors of rank ``src``, in place."""
    ensure_group()
    if rehearses():
        sends = dist.get_rank() == src
        hosts = _on_host(tensors) if sends else [_empty(tensor) for tensor in tensors]
        for flat in flattened(hosts):
            dist.broadcast(flat.values, src, group=group)
            flat.give_back(1)
        if not sends:
            _replace(tensors, hosts)
        return
    # The sum of the sender's and zeros: every replica has to run the same graph.
    sends_here = torch.tensor(xr.global_ordinal() == src).to(torch_xla.device())
    summed = [torch.where(sends_here, t, torch.zeros_like(t)) for t in tensors]
    summed = [t.to(torch.uint8) if t.dtype == torch.bool else t for t in summed]
    _total_in_graph(summed, 1.0, group)
    for tensor, value in zip(tensors, summed, strict=True):
        tensor.copy_(value)
    _note_unlaunched()


def _empty(tensor: torch.Tensor) -> torch.Tensor:
    return torch.empty(tensor.shape, dtype=tensor.dtype)


def _on_host(tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    away = [tensor for tensor in tensors if tensor.device.type == "xla"]
    fetched = iter(fetch(away))
    return [next(fetched) if t.device.type == "xla" else t.detach() for t in tensors]


def _replace(tensors: Sequence[torch.Tensor], hosts: Sequence[torch.Tensor]) -> None:
    pairs = [(t, host) for t, host in zip(tensors, hosts, strict=True) if t.device.type == "xla"]
    upload(pairs)


# What not all of them may launch

_unlaunched_since: int | None = None


def _note_unlaunched() -> None:
    global _unlaunched_since
    _unlaunched_since = _marks()


def _marks() -> int:
    return met.counter_value("MarkStep") or 0


def settle() -> None:
    """Launch what is recorded, all replicas together.

    A collective that is recorded and not launched hangs the replica that launches it alone, such as
    one that saves under ``if rank == 0:`` (1.41). So, if there is one, wait for the others first,
    for a limited time. A rehearsal has launched it, and still does as a device would.
    """
    if _unlaunched_since is not None and _unlaunched_since == _marks() and dist.is_initialized():
        world: Any = dist.group.WORLD
        host = world.host if _is_ours(None) else world
        limit = min(host.timeout, _PATIENCE) if rehearses() else host.timeout
        _meet(
            host,
            limit,
            "saves while averaged gradients wait to be launched",
            "Call xla.mark_step() on every replica before `if rank == 0:`, or save() on every "
            "replica",
        )
    mark()


def _meet(host: Any, limit: timedelta, doing: str, mend: str) -> None:
    """Wait for all replicas on the host; a RuntimeError where some do not come in time."""
    try:
        host.monitored_barrier(limit)
    except RuntimeError as error:
        raise RuntimeError(
            f"rank {dist.get_rank()} {doing}, and the other replicas did not come within "
            f"{limit.total_seconds():g} s: on a device the job would hang. {mend}"
        ) from error
