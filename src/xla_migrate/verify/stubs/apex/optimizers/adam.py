"""FusedAdam: Adam with decoupled weight decay by default, and *no* decay by default.

multi_tensor_adam.cu: update = m / c1 / (sqrt(v / c2) + eps), plus decay * p in AdamW mode;
p -= lr * update. In L2 mode decay * p is added to the gradient first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from .base import FusedOptimizer, corrections


class FusedAdam(FusedOptimizer):
    """apex.optimizers.FusedAdam."""

    def __init__(
        self,
        params: Any,
        lr: float = 1e-3,
        bias_correction: bool = True,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        adam_w_mode: bool = True,
        weight_decay: float = 0.0,
        amsgrad: bool = False,
        set_grad_none: bool = True,
        capturable: bool = False,
        master_weights: bool = False,
    ) -> None:
        if amsgrad:
            raise RuntimeError("FusedAdam does not support the AMSGrad variant.")
        if master_weights and not capturable:
            raise RuntimeError(
                "Master weights is currently only supported with the capturable version."
            )
        super().__init__(
            params,
            {
                "lr": lr,
                "bias_correction": bias_correction,
                "betas": betas,
                "eps": eps,
                "weight_decay": weight_decay,
            },
        )
        self.adam_w_mode = adam_w_mode
        self.set_grad_none = set_grad_none
        self.master_weights = master_weights

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None, **deprecated: Any) -> Any:
        """One step."""
        loss = self._closure(closure)
        for group in self.param_groups:
            group["step"] = group.get("step", 0) + 1
            for p, grad in self.with_grad(group):
                self._update(group, p, grad)
        return loss

    def _update(self, group: dict[str, Any], p: torch.Tensor, grad: torch.Tensor) -> None:
        state, decay = self.state[p], group["weight_decay"]
        if not state:
            state["exp_avg"] = torch.zeros_like(p, dtype=torch.float32)
            state["exp_avg_sq"] = torch.zeros_like(p, dtype=torch.float32)
            if self.master_weights and p.dtype != torch.float32:
                state["master"] = p.detach().float()
        weight = state.get("master", p.float())
        if not self.adam_w_mode:
            grad = grad + decay * weight
        beta1, beta2 = group["betas"]
        state["exp_avg"].mul_(beta1).add_(grad, alpha=1 - beta1)
        state["exp_avg_sq"].mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
        c1, c2 = corrections(group)
        update = (state["exp_avg"] / c1) / ((state["exp_avg_sq"] / c2).sqrt() + group["eps"])
        if self.adam_w_mode:
            update = update + decay * weight
        weight = weight - group["lr"] * update
        if "master" in state:
            state["master"] = weight
        p.copy_(weight)
