"""Tensors that training changes without an optimizer: averaged weights (EMA), running statistics.

Looked at before the first step and at the end, since that is enough to see that an update is lost, doubled,
or made where it should not be (batch norm in training mode while the script evaluates).
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch.nn.parameter import is_lazy

from ..device import device_values
from ..process import records
from . import fingerprints, names, writes

# torch_xla's batch norm keeps the biased variance.
_NOT_ALIKE = "running_var"
_COUNT = "num_batches_tracked"

Named = list[tuple[str, torch.Tensor]]

# By device: what is called how, how it was, and where to find what it has become.
_watched: list[tuple[torch.device, Named, torch.Tensor, Callable[[], Named]]] = []
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
    known = [_same(group) for group in groups.values()]
    for again in (*known, *map(_of, names.copies(stepped))):
        group = again()
        devices = {device_values.real_device(tensor) for _, tensor in group}
        if len(devices) == 1:
            _watched.append((devices.pop(), group, _state(group), again))
            if writes.wanted:
                writes.watch(again)


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
    for device, begun, before, again in _watched:
        group = again()
        if [name for name, _ in group] != [name for name, _ in begun]:
            continue
        if any(device_values.real_device(tensor) != device for _, tensor in group):
            continue
        with torch.no_grad(), torch._C.DisableTorchFunction():  # type: ignore[no-untyped-call]
            after = _state(group)
        called = [name for name, _ in group]

        def write(found: list[list[float]], called: list[str] = called) -> None:
            was, then = (records.numbers(v) for v in found)
            records.write("untracked", names=called, before=was, after=then)

        device_values.later([before, after], write)


def _state(group: Named) -> torch.Tensor:
    return fingerprints.weights([tensor for _, tensor in group])
