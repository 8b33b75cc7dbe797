"""Which gradients are averaged over the replicas, and when: each once.

Those of a ``DistributedDataParallel`` are averaged by it, in backward. Others are by
``reduce_gradients`` and ``optimizer_step``, the first that comes after a backward. Where a program
has such a wrapper, it has said what must be averaged: ``optimizer_step`` leaves all else alone, and
``reduce_gradients`` what stands in one optimizer with what is wrapped.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import torch
from torch import nn
from torch.utils.weak import WeakIdKeyDictionary

from ._backend import backend

# Parameters that a DistributedDataParallel looks after, and itself.
_looked_after: Any = WeakIdKeyDictionary()  # type: ignore[no-untyped-call]
# Modules that average their own gradients. The module is kept, not its parameters: a weak reference to
# a parameter would keep torch from giving it memory, as `to_empty` does after `fully_shard`.
_sharded: weakref.WeakSet[nn.Module] = weakref.WeakSet()
# Parameters whose gradient has been averaged -> that gradient, until a backward adds to it.
_averaged: Any = WeakIdKeyDictionary()  # type: ignore[no-untyped-call]
_watched: Any = WeakIdKeyDictionary()  # type: ignore[no-untyped-call]


def look_after(parameters: Iterable[torch.Tensor], owner: Any) -> None:
    """Leave these parameters' gradients to ``owner``, a DistributedDataParallel."""
    for parameter in parameters:
        _looked_after[parameter] = weakref.ref(owner)


def leave_to(module: nn.Module) -> None:
    """Leave the gradients of a module to itself: each replica has another part of them."""
    _sharded.add(module)


def to_average(optimizer: Any) -> list[torch.Tensor]:
    """The parameters of ``optimizer`` whose gradients are this replica's own.

    All that have a gradient, or none of them: replicas may differ in which are new. None where a
    wrapper looks after some: beside them stand a table of each replica's own, what the wrapper was
    told to ignore, or what was frozen when it was made, and torch averages none of these.
    """
    check_complete(optimizer)
    parameters = list(_parameters(optimizer))
    if any(p in _looked_after for p in parameters) or _are_split(parameters):
        return []
    free = [p for p in parameters if p.requires_grad and p.grad is not None]
    return free if not all(map(_is_averaged, free)) else []


def _are_split(parameters: Sequence[torch.Tensor]) -> bool:
    """True if one of them belongs to a module that looks after its own; asked at each step, it ends at the first."""
    if not _sharded:
        return False
    asked = set(map(id, parameters))
    return any(id(p) in asked for module in _sharded for p in module.parameters())


def check_complete(optimizer: Any) -> None:
    """Raise if a wrapper of parameters of ``optimizer`` has not averaged all gradients."""
    for owner in _owners(optimizer):
        owner.check_complete()


def wrapper_exists() -> bool:
    """True if some model of this program is wrapped: then, as on CUDA, nothing else is averaged unasked."""
    return len(_looked_after) + len(_sharded) > 0


def _parameters(optimizer: Any) -> Iterator[torch.Tensor]:
    if not hasattr(optimizer, "param_groups"):
        raise TypeError(
            f"the gradients of {type(optimizer).__name__} cannot be averaged: it has no param_groups;"
            " give the torch.optim optimizer inside it, or average=False"
        )
    for group in optimizer.param_groups:
        yield from group["params"]


def _owners(optimizer: Any) -> list[Any]:
    """The wrappers that are left, of the parameters that are trained."""
    known = (_looked_after.get(p) for p in _parameters(optimizer) if p.requires_grad)
    owners = [reference() for reference in known if reference is not None]
    found = {id(owner): owner for owner in owners if hasattr(owner, "check_complete")}
    return list(found.values())


def _is_averaged(parameter: torch.Tensor) -> bool:
    gradient = _averaged.get(parameter)
    return gradient is not None and gradient() is parameter.grad


def note_averaged(parameters: Iterable[torch.Tensor]) -> None:
    """Until a backward adds to them, or others take their place, these gradients are averages."""
    for parameter in parameters:
        if parameter not in _watched:
            _watched[parameter] = parameter.register_post_accumulate_grad_hook(_forget)  # type: ignore[no-untyped-call]
        assert parameter.grad is not None
        _averaged[parameter] = weakref.ref(parameter.grad)


def _forget(parameter: torch.Tensor) -> None:
    _averaged.pop(parameter, None)


@torch.no_grad()
def average(parameters: Sequence[torch.Tensor], size: int, group: Any = None) -> None:
    """Every parameter's gradient becomes its mean over the replicas; a missing one counts as 0.

    Args:
        parameters: The same ones on every replica, in the same order.
        size: How many replicas.
        group: A process group of some of them.
    """
    for parameter in parameters:
        if parameter.grad is None:
            parameter.grad = torch.zeros_like(parameter)
    gradients = [p.grad for p in parameters if p.grad is not None]
    if gradients:
        backend().total(gradients, 1 / size, group)


def check_replicated(parameters: Sequence[torch.Tensor], size: int) -> None:
    """Raise where replicas hold other values, at the first step that averages these parameters.

    What every replica has for itself, such as its part of a table that is split over replicas, is
    trained wrong by averages. Each parameter is copied to the host, once, and two sums are compared:
    on the device they would be a graph to compile (25 s for 160 parameters on XLA:CPU).

    Args:
        parameters: The same ones on every replica, in the same order.
        size: How many replicas.

    Raises:
        RuntimeError: on every replica.
    """
    if not parameters or parameters[0] in _checked:
        return
    _checked[parameters[0]] = True
    own = [_sums(parameter) for parameter in parameters]
    everyones: list[Any] = [None] * size
    backend().collective("all_gather_object", everyones, own)
    if any(len(theirs) != len(own) for theirs in everyones):
        return  # Other parameters have gradients there, which the average itself will find.
    different = sum(
        any(
            not _close(a, b) for theirs in everyones for a, b in zip(theirs[i], own[i], strict=True)
        )
        for i in range(len(own))
    )
    if different:
        raise RuntimeError(
            f"{different} of {len(parameters)} parameters of this optimizer differ between replicas, "
            "so that averages of their gradients would train them wrong. If each replica has different "
            "parameters on purpose (model parallelism), step with "
            "xla.optimizer_step(optimizer, average=False). If they should be equal, seed every "
            "replica alike, or wrap the model in xla.DistributedDataParallel, which sends them the "
            "first replica's"
        )


@torch.no_grad()
def _sums(parameter: torch.Tensor) -> tuple[float, float]:
    """The sum of a tensor, and that of its squares."""
    values = parameter.detach().cpu().double()
    return float(values.sum()), float(values.square().sum())


def _close(a: float, b: float) -> bool:
    return math.isclose(a, b, rel_tol=1e-6, abs_tol=1e-12) or (math.isnan(a) and math.isnan(b))


# The first parameter of each list that has been checked.
_checked: Any = WeakIdKeyDictionary()  # type: ignore[no-untyped-call]
