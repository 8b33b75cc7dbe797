"""torch_xla's own ranks and collectives in a rehearsal, for libraries that call them.

On XLA:CPU torch_xla makes every process rank 0 of 1, silently (fact 3.10), and each would train a copy by itself. Here
``torch_xla.runtime`` knows the launcher's ranks, and what ``torch_xla.core.xla_model`` reduces, gathers and exchanges goes
through gloo on host copies. Broadcasts, gradient reduction and saving are made of these. What cannot be rehearsed raises.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist

from .._launchers import replica_of_environment
from .groups import rehearses
from .marks import mark
from .modules import xm, xr
from .replicas import ensure_group, total

_SUM = "sum"
_OPERATIONS: dict[str, Any] = {
    _SUM: dist.ReduceOp.SUM,
    "mul": dist.ReduceOp.PRODUCT,
    "and": dist.ReduceOp.BAND,
    "or": dist.ReduceOp.BOR,
    "min": dist.ReduceOp.MIN,
    "max": dist.ReduceOp.MAX,
}
_NOT_REHEARSED = ("all_to_all", "collective_permute", "send", "recv", "reduce_scatter")


@functools.cache
def apply() -> bool:
    """Replace them if several processes rehearse; return whether they do."""
    rank, local_rank, size = replica_of_environment()
    if size == 1 or not rehearses() or xr.is_spmd():
        return False
    for name in (
        "world_size",
        "process_count",
        "global_device_count",
        "global_runtime_device_count",
    ):
        setattr(xr, name, lambda: size)
    for name in ("global_ordinal", "process_index"):
        setattr(xr, name, lambda: rank)
    xr.local_ordinal = lambda: local_rank
    xm.get_local_ordinal = lambda: local_rank
    xm.set_replication = lambda device, devices: (
        None
    )  # its replicas would be this process's devices
    xm.all_reduce = all_reduce
    xm.all_gather = all_gather
    xm.xla_rendezvous = exchange
    for name in _NOT_REHEARSED:
        setattr(xm, name, _refusing(name))
    return True


@torch.no_grad()
def all_reduce(
    reduce_type: str, inputs: Any, scale: float = 1.0, groups: Any = None, pin_layout: bool = True
) -> Any:
    """``xm.all_reduce``: a new tensor, or a list of tensors in place."""
    _check_groups("all_reduce", groups)
    tensors = [inputs.detach().clone()] if isinstance(inputs, torch.Tensor) else list(inputs)
    if reduce_type == _SUM:
        total(tensors, scale)
    else:
        ensure_group()
        for tensor in tensors:
            dist.all_reduce(tensor, op=_OPERATIONS[reduce_type])
            if scale != 1:
                tensor.mul_(scale)
    return tensors[0] if isinstance(inputs, torch.Tensor) else inputs


@torch.no_grad()
def all_gather(
    value: Any, dim: int = 0, groups: Any = None, output: Any = None, *more: Any, **kwargs: Any
) -> Any:
    """``xm.all_gather``: what all processes have, one behind the other in dimension ``dim``.

    Raises:
        RuntimeError: they have tensors of different shapes. A device would wait forever.
    """
    _check_groups("all_gather", groups)
    if isinstance(value, list):
        outputs = output or [None] * len(value)
        return [all_gather(v, dim, None, o) for v, o in zip(value, outputs, strict=True)]
    ensure_group()
    shapes: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(shapes, tuple(value.shape))
    if len(set(shapes)) > 1:
        raise RuntimeError(
            f"xm.all_gather of tensors of different shapes: {', '.join(map(str, shapes))}. On a device the job would "
            "hang. Pad them to one shape first, such as with accelerator.pad_across_processes"
        )
    parts = [torch.empty_like(value) for _ in shapes]
    dist.all_gather(parts, value.contiguous())
    gathered = torch.cat(parts, dim)
    return gathered if output is None else output.copy_(gathered)


def exchange(
    payload: bytes = b"", ordinals: list[int] | None = None, tag: str | None = None
) -> list[bytes]:
    """``xm.xla_rendezvous``: wait for the processes, and return what each of them brings, by rank."""
    size = dist.get_world_size() if dist.is_initialized() else xr.world_size()
    if ordinals is not None and sorted(ordinals) != list(range(size)):
        raise NotImplementedError("xm.rendezvous of some of the processes cannot be rehearsed")
    ensure_group()
    mark()
    brought: list[Any] = [b""] * size
    dist.all_gather_object(brought, payload)
    return brought


def _check_groups(name: str, groups: Any) -> None:
    if groups and list(map(sorted, groups)) != [list(range(xr.world_size()))]:
        raise NotImplementedError(f"xm.{name} in groups of processes cannot be rehearsed")


def _refusing(name: str) -> Callable[..., Any]:
    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(f"xm.{name} cannot be rehearsed on XLA:CPU")

    return refuse
