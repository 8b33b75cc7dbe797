"""The loss of every backward pass, as the script computed it: before a loss scaler multiplied it."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Sequence
from typing import Any

import torch

from ..numerics import device_random
from ..process import clock, where
from ..process.patching import Patches

_UNSCALED = "_xla_migrate_unscaled"

# (value, file:line) of the backward passes since the last step.
since_step: list[tuple[torch.Tensor, str]] = []
_depth = 0
passes = 0  # backward passes so far

Listener = Callable[[], None]
_before: list[Listener] = []
_after: list[Listener] = []


def listen(before: Listener, after: Listener) -> None:
    """Have functions called around every outermost backward pass."""
    _before.append(before)
    _after.append(after)


def forget() -> None:
    """Drop listeners and losses (between runs in one process: the tests)."""
    _before.clear()
    _after.clear()
    since_step.clear()


def _value(root: torch.Tensor, weight: torch.Tensor | None) -> torch.Tensor:
    unscaled: torch.Tensor = getattr(root, _UNSCALED, root)
    with torch.no_grad(), torch._C.DisableTorchFunction():  # type: ignore[no-untyped-call]
        value = unscaled.detach()
        if weight is not None and value.dim():
            value = (value * weight.detach()).sum()
        return value.reshape(()).clone() if value.numel() == 1 else value.sum()


def _record(roots: Sequence[torch.Tensor], weights: Sequence[torch.Tensor | None]) -> None:
    global passes
    passes += 1
    with clock.harness():
        place = where.caller()
        values = [_value(r, w) for r, w in zip(roots, weights, strict=True)]
        total = values[0] if len(values) == 1 else torch.stack(values).sum()
        since_step.append((total, place))


def _listed(values: Any) -> list[Any]:
    return list(values) if isinstance(values, (tuple, list)) else [values]


def _is_traced() -> bool:
    """True if torch_xla's `scan` differentiates a function while it traces it: its `nn.GRU` does so in forward."""
    return str(sys._getframe(2).f_globals.get("__name__", "")) == "torch_xla.experimental.scan"


def _backward(original: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(original)
    def backward(tensors: Any, grad_tensors: Any = None, *args: Any, **kwargs: Any) -> None:
        global _depth
        if _depth or _is_traced():  # recomputation inside a backward pass
            return original(tensors, grad_tensors, *args, **kwargs)
        device_random.begin_training()
        for listener in _before:
            listener()
        roots = _listed(tensors)
        weights = [None] * len(roots) if grad_tensors is None else _listed(grad_tensors)
        _record(roots, weights)
        _depth += 1
        try:
            original(tensors, grad_tensors, *args, **kwargs)
        finally:
            _depth -= 1
        for listener in _after:
            listener()
        return None

    return backward


def _grad(original: Callable[..., Any]) -> Callable[..., Any]:
    """`torch.autograd.grad(loss, weights)` trains too; with create_graph it is part of a loss."""

    @functools.wraps(original)
    def grad(outputs: Any, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        global _depth
        roots = _listed(outputs)
        trains = not kwargs.get("create_graph") and all(r.numel() == 1 for r in roots)
        if not _depth and trains:
            _record(roots, [None] * len(roots))
        _depth += 1  # while a mode is active, torch calls this a second time
        try:
            return original(outputs, inputs, *args, **kwargs)
        finally:
            _depth -= 1

    return grad


def _scale(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def scale(self: Any, outputs: Any) -> Any:
        scaled = original(self, outputs)
        pairs = zip(_listed(scaled), _listed(outputs), strict=False)
        for after, before in pairs:
            if isinstance(after, torch.Tensor) and after is not before:
                setattr(after, _UNSCALED, before.detach())
        return scaled

    return scale


def install(patches: Patches) -> None:
    """Watch backward passes and loss scaling."""
    patches.put(torch.autograd, "backward", _backward(torch.autograd.backward))
    patches.put(torch.autograd, "grad", _grad(torch.autograd.grad))
    scaler = torch.amp.grad_scaler.GradScaler
    patches.put(scaler, "scale", _scale(scaler.scale))
