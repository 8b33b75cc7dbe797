"""The inputs and results of an optimizer step: parameters, gradients and state at fixed elements.

With the optimizer's class and options, these elements are enough to compute the step again, elsewhere, for every
optimizer that treats elements apart. For other optimizers, small tensors are recorded whole.
"""

from __future__ import annotations

from typing import Any

import torch

from ..device.device_values import local
from ..process import packing, records
from . import samples
from .fetching import fetch_later

WHOLE = 4_096  # elements of a tensor that is recorded whole, at most, ...
MOST_WHOLE = 32_768  # ... and of all such tensors of an optimizer, the smallest first
MOST_PARAMETERS = 3_000
_NOT_ELEMENTWISE = {"Adafactor", "Muon", "LBFGS"}  # of torch.optim


class Recorder:
    """Records the steps until it is stopped."""

    def __init__(self) -> None:
        self.active = True
        self.before: dict[str, Any] | None = None
        self.fields: list[torch.Tensor] = []
        self.whole = 0  # elements of the largest tensor that is recorded whole

    def before_step(self, optimizer: Any, event: int) -> None:
        """Note what a step is about to use."""
        self.before, self.fields = None, []
        if not self.active:
            return
        kind = type(optimizer)
        whole = samples.VALUES
        if not _is_elementwise(kind):
            whole = _whole([p for g in optimizer.param_groups for p in g["params"]])
        groups: list[int] = []
        shapes: list[list[int]] = []
        state: list[dict[str, Any]] = []
        scale = getattr(optimizer, "grad_scale", None)
        for number, group in enumerate(optimizer.param_groups):
            for p in group["params"]:
                if p.grad is None or len(groups) >= MOST_PARAMETERS:
                    groups.append(-1)
                    continue
                groups.append(number)
                shapes.append(list(local(p).shape))
                gradient = p.grad.to_dense() if p.grad.is_sparse else p.grad
                gradient = gradient if scale is None else gradient / scale
                every = local(p).numel() <= whole
                summary = samples.summary(gradient)  # has the elements unless all are recorded
                elements = _elements(gradient, every) if every else summary[:0]
                self.fields += [_elements(p, every), summary, elements]
                state.append(self._state(p, optimizer.state.get(p, {}), every))
        name = f"{kind.__module__}.{kind.__qualname__}"
        self.before = {"kind_of_optimizer": name, "groups": groups, "shapes": shapes}
        self.before["state"] = state
        self.whole = whole

    def _state(self, parameter: Any, state: Any, every: bool) -> dict[str, Any]:
        """Return the state of one parameter by name: numbers, and places in `fields` with a shape."""
        found: dict[str, Any] = {}
        for name, value in state.items():
            if isinstance(value, (bool, int, float)):
                found[name] = value
            elif isinstance(value, torch.Tensor):
                alike = value.shape == parameter.shape
                if alike or value.numel() <= WHOLE:
                    found[name] = [len(self.fields), list(local(value).shape)]
                    self.fields.append(_elements(value, every or not alike))
        return found

    def after_step(self, optimizer: Any, event: int) -> None:
        """Write the step, with what it has made."""
        if self.before is None:
            return
        record, self.before = self.before, None
        groups = iter(record["groups"])
        after = [
            _elements(p, p.numel() <= self.whole)
            for group in optimizer.param_groups
            for p in group["params"]
            if next(groups) >= 0
        ]
        fields, self.fields = [*self.fields, *after], []
        if not after:
            return
        sizes = [t.numel() for t in fields]

        def write(values: list[float]) -> None:
            packed = packing.pack(values)
            records.write("update", event=event, sizes=sizes, values=packed, **record)

        fetch_later(fields, write)


def _is_elementwise(kind: type) -> bool:
    return kind.__module__.startswith("torch.optim.") and kind.__name__ not in _NOT_ELEMENTWISE


def _whole(parameters: list[torch.Tensor]) -> int:
    """Return up to which size tensors are recorded whole."""
    found, total = samples.VALUES, 0
    for size in sorted(local(p).numel() for p in parameters if p.grad is not None):
        total += size
        if size > WHOLE or total > MOST_WHOLE:
            break
        found = max(found, size)
    return found


def _elements(tensor: torch.Tensor, every: bool) -> torch.Tensor:
    """Return all elements of a tensor, or some, in float32: a copy."""
    flat = samples.plain(tensor).reshape(-1)
    chosen = flat if every else samples.values(flat)
    return torch.clone(chosen.float())
