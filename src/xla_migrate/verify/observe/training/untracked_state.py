"""Tensors that training changes without an optimizer: averaged weights (EMA), running statistics.

Looked at before the first step and at the end, since that is enough to see that an update is lost, doubled,
or made where it should not be (batch norm in training mode while the script evaluates).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import torch
from torch.nn.parameter import is_lazy

from ..device import device_values
from ..process import records
from . import fingerprints, names, writes

# torch_xla's batch norm keeps the biased variance.
_NOT_ALIKE = "running_var"
_COUNT = "num_batches_tracked"

Named = list[tuple[str, torch.Tensor]]


class _Watched(NamedTuple):
    """Tensors on one device: what is called how, how it was, and where to find what it has become."""

    device: torch.device
    begun: Named
    before: torch.Tensor
    again: Callable[[], Named]


# Together: dicts or lists that look alike, as a checkpoint's weights and the average that began with them do.
_watched: list[list[_Watched]] = []
_begun = False


def begin(stepped: set[int]) -> None:
    """Note what there is, once: before the first step of the first optimizer.

    Args:
        stepped: ids of the tensors that optimizers step on.
    """
    global _begun
    if _begun:
        writes.step()
        return
    _begun = True
    groups: dict[torch.device, Named] = {}
    for name, tensor in names.of_models(without=stepped):
        if _is_compared(name, tensor):
            groups.setdefault(device_values.real_device(tensor), []).append((name, tensor))
    sets = [[_same(group)] for group in groups.values()]
    sets += [list(map(_of, alike)) for alike in names.copies(stepped)]
    for members in sets:
        watched = [one for one in map(_watch, members) if one is not None]
        if watched:
            _watched.append(watched)


def _watch(again: Callable[[], Named]) -> _Watched | None:
    group = again()
    devices = {device_values.real_device(tensor) for _, tensor in group}
    if len(devices) != 1:
        return None
    if writes.wanted:
        writes.watch(again)
    return _Watched(devices.pop(), group, _state(group), again)


def _same(group: Named) -> Callable[[], Named]:
    return lambda: group


def _of(copy: names.Copy) -> Callable[[], Named]:
    """Return the tensors of a copy that can be compared, whatever it holds by then."""
    return lambda: [(name, t) for name, t in names.within(copy) if _is_compared(name, t)]


def _is_compared(name: str, tensor: torch.Tensor) -> bool:
    if is_lazy(tensor) or tensor.layout is not torch.strided:
        return False
    if name.endswith(_COUNT):
        return True
    if not tensor.is_floating_point() or device_values.real_device(tensor).type == "meta":
        return False
    return not name.endswith(_NOT_ALIKE) and (tensor.dim() >= 2 or name.endswith("running_mean"))


def end() -> None:
    """Record how it has moved; what went to another device meanwhile is left out."""
    writes.end()
    for alike in _watched:
        _record([(one.before, group) for one in alike if (group := _kept(one)) is not None])


def _kept(one: _Watched) -> Named | None:
    """Return the tensors as they are now, None if there are others or they are elsewhere."""
    group = one.again()
    is_same = [name for name, _ in group] == [name for name, _ in one.begun]
    is_here = all(device_values.real_device(tensor) == one.device for _, tensor in group)
    return group if is_same and is_here else None


def _record(alike: list[tuple[torch.Tensor, Named]]) -> None:
    """Write how the one of them has moved that training changes; nothing if it changes several."""
    found: list[tuple[list[str], list[float], list[float]]] = []

    def collect(called: list[str], numbers: list[list[float]]) -> None:
        found.append((called, numbers[0], numbers[1]))
        if len(found) < len(alike):
            return
        moved = {tuple(one[2]): one for one in found if one[1] != one[2]}
        if len(moved) <= 1:
            of, was, then = next(iter(moved.values()), found[0])
            before, after = map(records.numbers, (was, then))
            records.write("untracked", names=of, before=before, after=after)

    for begun, group in alike:
        with torch.no_grad(), torch._C.DisableTorchFunction():  # type: ignore[no-untyped-call]
            now = _state(group)
        device_values.later([begun, now], partial(collect, [name for name, _ in group]))


def _state(group: Named) -> torch.Tensor:
    return fingerprints.weights([tensor for _, tensor in group])
