"""The inputs that the script passes to its outermost modules (models, loss functions) in each step."""

from __future__ import annotations

from typing import Any

import torch

from ..device import device_values
from ..process import clock, packing, records
from . import calls, samples
from .quietly import off_mode

MOST = 4  # outermost calls of a step
MOST_TENSORS = 8  # of a call

_found: list[tuple[str, list[int], bool, torch.Tensor]] = []
_called = 0
_full_precision = False


def use_full_precision(wanted: bool) -> None:
    """Keep TF32 off on CUDA, whatever the script sets."""
    global _full_precision
    _full_precision = wanted


def entered(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Summarise the inputs of an outermost call."""
    global _called
    if calls.running:
        return
    if _full_precision:
        _tf32_off()
    if _called >= MOST:
        return
    _called += 1
    with clock.harness():
        off_mode(_note, args, kwargs)


def _note(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    given = [*samples.tensors_in(list(args)), *samples.tensors_in(kwargs)]
    for name, tensor in given[:MOST_TENSORS]:
        if not tensor.requires_grad:  # outputs of a model are results, not data
            label = f"{_called - 1}.{name}"
            whole = not (tensor.is_floating_point() or tensor.is_complex())
            _found.append((label, list(tensor.shape), whole, samples.rows(tensor).float()))


def _tf32_off() -> None:
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False


def step_over(event: int) -> None:
    """Write the inputs of the step that is over."""
    global _called
    found = list(_found)
    _found.clear()
    _called = 0
    if not found:
        return
    names, shapes, whole, tensors = map(list, zip(*found, strict=True))

    def write(values: list[list[float]]) -> None:
        rows = [packing.pack(v) for v in values]
        records.write("inputs", event=event, names=names, shapes=shapes, integers=whole, rows=rows)

    device_values.later(tensors, write)
