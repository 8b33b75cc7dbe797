"""The common part of the fused optimizers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch


class FusedOptimizer(torch.optim.Optimizer):
    """`zero_grad` as apex's: gradients to None when `set_grad_none`."""

    set_grad_none = True

    def zero_grad(self, set_to_none: bool | None = None) -> None:
        """Clear the gradients."""
        super().zero_grad(self.set_grad_none if set_to_none is None else set_to_none)

    def _closure(self, closure: Callable[[], Any] | None) -> Any:
        if closure is None:
            return None
        with torch.enable_grad():  # type: ignore[no-untyped-call]
            return closure()

    def with_grad(self, group: dict[str, Any]) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        """Parameters of a group that have a gradient, with it, in float32."""
        for p in group["params"]:
            if p.grad is not None:
                if p.grad.is_sparse:
                    raise RuntimeError(f"{type(self).__name__} does not support sparse gradients")
                yield p, p.grad.float()


def corrections(group: dict[str, Any]) -> tuple[float, float]:
    """Bias corrections of the two moments; 1 where the group wants none."""
    if not group["bias_correction"]:
        return 1.0, 1.0
    beta1, beta2 = group["betas"]
    return 1 - beta1 ** group["step"], 1 - beta2 ** group["step"]
