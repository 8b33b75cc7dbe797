"""apex's loss scaling: unscale at the end of `scale_loss`, skip one step after an overflow.

Built on torch's GradScaler, whose rules are the same (start 2**16, halve on overflow, double after
2000 steps); apex merely does them at another moment.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from torch.amp.grad_scaler import GradScaler


class LossScaler:
    """One loss's scale; a number instead of "dynamic" never changes."""

    def __init__(self, scale: Any) -> None:
        self.dynamic = scale == "dynamic"
        self._make(2.0**16 if self.dynamic else float(scale))

    def _make(self, scale: float) -> None:
        self.torch = GradScaler("cuda", init_scale=scale)
        self.unskipped = 0

    @property
    def scale(self) -> float:
        """The factor in use."""
        return self.torch.get_scale()

    def update(self, overflow: bool) -> None:
        """Adapt the scale; a static one stays."""
        self.torch.update(None if self.dynamic else self.scale)
        self.unskipped = 0 if overflow else self.unskipped + 1

    def restore(self, scale: float, unskipped: int) -> None:
        """Back to a saved state."""
        self._make(scale)
        self.unskipped = unskipped


@contextlib.contextmanager
def scaled_backward(
    scaler: LossScaler, loss: torch.Tensor, optimizers: list[Any], delay_unscale: bool
) -> Iterator[torch.Tensor]:
    """Yield the scaled loss; afterwards unscale the new gradients and look for overflow."""
    for optimizer in optimizers:
        if not getattr(optimizer, "_amp_scaled_grads", False):
            optimizer._amp_earlier = _take_gradients(optimizer)
    yield scaler.torch.scale(loss.float())
    for optimizer in optimizers:
        optimizer._amp_scaled_grads = delay_unscale
    if delay_unscale:
        return
    overflow = any([_unscale(scaler, optimizer) for optimizer in optimizers])  # noqa: C419 - all of them
    scaler.update(overflow)
    if overflow and scaler.dynamic:
        for optimizer in optimizers:
            _skip_one_step(optimizer)


def _take_gradients(optimizer: Any) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Gradients of earlier backwards, already unscaled: set aside while new ones are scaled."""
    earlier = []
    for group in optimizer.param_groups:
        for p in group["params"]:
            if p.grad is not None:
                earlier.append((p, p.grad))
                p.grad = None
    return earlier


def _unscale(scaler: LossScaler, optimizer: Any) -> bool:
    masters = getattr(optimizer, "_amp_masters", None)
    if masters is not None:
        masters.take_gradients()
    if not any(p.grad is not None for g in optimizer.param_groups for p in g["params"]):
        return False
    # O3 has half gradients, which GradScaler refuses and apex unscales; its scale is a constant.
    found = scaler.torch._unscale_grads_(
        optimizer,
        torch.tensor(scaler.scale).double().reciprocal().float(),
        torch.full((), 0.0),
        True,
    )
    state = scaler.torch._per_optimizer_states[id(optimizer)]
    state["found_inf_per_device"] = found
    for p, grad in optimizer._amp_earlier:
        p.grad = grad if p.grad is None else p.grad + grad
    optimizer._amp_earlier = []
    return any(float(v) > 0 for v in found.values())


def _skip_one_step(optimizer: Any) -> None:
    step = optimizer.step

    def skip(closure: Any = None) -> None:
        optimizer.step = step

    optimizer.step = skip
