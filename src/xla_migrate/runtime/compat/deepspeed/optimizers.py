"""Optimizers of DeepSpeed's that torch has not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch


class FusedLion(torch.optim.Optimizer):
    """``deepspeed.ops.lion.FusedLion``: steps by the sign of a moving average of gradients.

    Where that is 0, DeepSpeed's kernel for CUDA adds the learning rate, and so does this; other Lions stay.
    """

    def __init__(
        self,
        params: Any,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        weight_decay: float = 0.0,
    ) -> None:
        super().__init__(params, {"lr": lr, "betas": betas, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """One step."""
        loss = None
        if closure is not None:
            with torch.enable_grad():  # type: ignore[no-untyped-call]
                loss = closure()
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    self._update(group, parameter, parameter.grad)
        return loss

    def _update(self, group: dict[str, Any], parameter: torch.Tensor, grad: torch.Tensor) -> None:
        state = self.state[parameter]
        if not state:
            state["exp_avg"] = torch.zeros_like(parameter)
        (beta1, beta2), average = group["betas"], state["exp_avg"]
        falls = average * beta1 + grad * (1 - beta1) > 0
        parameter.mul_(1 - group["lr"] * group["weight_decay"])
        parameter.add_(torch.where(falls, -1.0, 1.0).to(parameter.dtype) * group["lr"])
        average.mul_(beta2).add_(grad * (1 - beta2))


# By their names in a configuration.
OWN = {"Lion": FusedLion}
