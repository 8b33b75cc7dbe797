"""deepspeed.ops.lamb.FusedLamb (csrc/lamb/fused_lamb_cuda_kernel.cu).

Gradients are clipped by their global norm only with max_grad_norm > 0; the ratio |p| / |update| is
held between min_coeff and max_coeff, and is 1 where either norm is 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch


class FusedLamb(torch.optim.Optimizer):
    """deepspeed.ops.lamb.FusedLamb."""

    def __init__(
        self,
        params: Any,
        lr: float = 1e-3,
        bias_correction: bool = True,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        eps_inside_sqrt: bool = False,
        weight_decay: float = 0.0,
        max_grad_norm: float = 0.0,
        max_coeff: float = 10.0,
        min_coeff: float = 0.01,
        amsgrad: bool = False,
    ) -> None:
        if amsgrad:
            raise RuntimeError("FusedLamb does not support the AMSGrad variant.")
        super().__init__(
            params,
            {
                "lr": lr,
                "bias_correction": bias_correction,
                "betas": betas,
                "eps": eps,
                "weight_decay": weight_decay,
                "max_grad_norm": max_grad_norm,
                "max_coeff": max_coeff,
                "min_coeff": min_coeff,
            },
        )
        self.eps_inside_sqrt = eps_inside_sqrt

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None, **deprecated: Any) -> Any:
        """One step."""
        loss = None
        if closure is not None:
            with torch.enable_grad():  # type: ignore[no-untyped-call]
                loss = closure()
        for group in self.param_groups:
            grads = [p.grad.float() for p in group["params"] if p.grad is not None]
            scale = 1.0
            if group["max_grad_norm"] > 0 and grads:
                total = float(torch.stack([g.norm() for g in grads]).norm())
                scale = max(1.0, total / group["max_grad_norm"])
            for p in group["params"]:
                if p.grad is not None:
                    self._update(group, p, p.grad.float() / scale)
        return loss

    def _update(self, group: dict[str, Any], p: torch.Tensor, grad: torch.Tensor) -> None:
        state, weight = self.state[p], p.float()
        if not state:
            state["step"] = 0
            state["exp_avg"] = torch.zeros_like(weight)
            state["exp_avg_sq"] = torch.zeros_like(weight)
        state["step"] += 1
        beta1, beta2 = group["betas"]
        state["exp_avg"].mul_(beta1).add_(grad, alpha=1 - beta1)
        second = state["exp_avg_sq"].mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
        inside = self.eps_inside_sqrt
        denominator = (second + group["eps"]).sqrt() if inside else second.sqrt() + group["eps"]
        update = state["exp_avg"] / denominator + group["weight_decay"] * weight
        step_size = group["lr"]
        if group["bias_correction"]:
            corrected = math.sqrt(1 - beta2 ** state["step"]) / (1 - beta1 ** state["step"])
            step_size = step_size * corrected
        size, change = weight.norm(), update.norm()
        ratio = torch.where((size != 0) & (change != 0), size / change, torch.ones_like(size))
        ratio = torch.where(
            (size != 0) & (change != 0),
            ratio.clamp(group["min_coeff"], group["max_coeff"]),
            ratio,
        )
        p.copy_(weight - step_size * ratio * update)
