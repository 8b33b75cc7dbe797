"""FusedLAMB: weight decay 0.01, eps 1e-6 and clipping of the global norm at 1 by default.

multi_tensor_lamb.cu: gradients are divided by norm / max_grad_norm where the global norm exceeds
it; the step of a tensor is scaled by |p| / |update|, only where it decays or with use_nvlamb.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from .base import FusedOptimizer, corrections


class FusedLAMB(FusedOptimizer):
    """apex.optimizers.FusedLAMB."""

    def __init__(
        self,
        params: Any,
        lr: float = 1e-3,
        bias_correction: bool = True,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-6,
        weight_decay: float = 0.01,
        amsgrad: bool = False,
        adam_w_mode: bool = True,
        grad_averaging: bool = True,
        set_grad_none: bool = True,
        max_grad_norm: float = 1.0,
        use_nvlamb: bool = False,
    ) -> None:
        if amsgrad:
            raise RuntimeError("FusedLAMB does not support the AMSGrad variant.")
        super().__init__(
            params,
            {
                "lr": lr,
                "bias_correction": bias_correction,
                "betas": betas,
                "eps": eps,
                "weight_decay": weight_decay,
                "grad_averaging": grad_averaging,
                "max_grad_norm": max_grad_norm,
            },
        )
        self.adam_w_mode = adam_w_mode
        self.set_grad_none = set_grad_none
        self.use_nvlamb = use_nvlamb

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """One step."""
        loss = self._closure(closure)
        norms = [g.norm() for group in self.param_groups for _, g in self.with_grad(group)]
        total = torch.stack(norms).norm() if norms else torch.tensor(0.0)
        limit = self.defaults["max_grad_norm"]
        clip = torch.where(total > limit, total / limit, torch.ones_like(total))
        for group in self.param_groups:
            group["step"] = group.get("step", 0) + 1
            for p, grad in self.with_grad(group):
                self._update(group, p, grad / clip)
        return loss

    def _update(self, group: dict[str, Any], p: torch.Tensor, grad: torch.Tensor) -> None:
        state, decay, weight = self.state[p], group["weight_decay"], p.float()
        if not state:
            state["exp_avg"] = torch.zeros_like(p, dtype=torch.float32)
            state["exp_avg_sq"] = torch.zeros_like(p, dtype=torch.float32)
        if not self.adam_w_mode:
            grad = grad + decay * weight
        beta1, beta2 = group["betas"]
        beta3 = 1 - beta1 if group["grad_averaging"] else 1.0
        state["exp_avg"].mul_(beta1).add_(grad, alpha=beta3)
        state["exp_avg_sq"].mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
        c1, c2 = corrections(group)
        update = (state["exp_avg"] / c1) / ((state["exp_avg_sq"] / c2).sqrt() + group["eps"])
        if self.adam_w_mode:
            update = update + decay * weight
        ratio = torch.tensor(1.0)
        if self.use_nvlamb or decay != 0:
            size, step = weight.norm(), update.norm()
            ratio = torch.where((size != 0) & (step != 0), size / step, torch.ones_like(size))
        p.copy_(weight - group["lr"] * ratio * update)
