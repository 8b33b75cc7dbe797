"""FusedNovoGrad: the second moment is one norm per tensor, initialised with the first gradient's.

multi_tensor_novograd.cu and fused_novograd.py: norms are blended as sqrt(b2 n^2 + (1 - b2) g^2)
(L2) or b2 n + (1 - b2) g (Linf); the correction of the second moment is sqrt(1 - b2^t).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from .base import FusedOptimizer


class FusedNovoGrad(FusedOptimizer):
    """apex.optimizers.FusedNovoGrad."""

    def __init__(
        self,
        params: Any,
        lr: float = 1e-3,
        bias_correction: bool = True,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        amsgrad: bool = False,
        reg_inside_moment: bool = False,
        grad_averaging: bool = True,
        norm_type: int = 2,
        init_zero: bool = False,
        set_grad_none: bool = True,
    ) -> None:
        if amsgrad:
            raise RuntimeError("FusedNovoGrad does not support the AMSGrad variant.")
        if norm_type not in (0, 2):
            raise RuntimeError("FusedNovoGrad only support l2/inf norm now.")
        super().__init__(
            params,
            {
                "lr": lr,
                "bias_correction": bias_correction,
                "betas": betas,
                "eps": eps,
                "weight_decay": weight_decay,
                "grad_averaging": grad_averaging,
                "norm_type": norm_type,
                "init_zero": init_zero,
            },
        )
        self.reg_inside_moment = reg_inside_moment
        self.set_grad_none = set_grad_none

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """One step."""
        loss = self._closure(closure)
        for group in self.param_groups:
            group["step"] = group.get("step", 0) + 1
            for p, grad in self.with_grad(group):
                self._update(group, p, grad)
        return loss

    def _norm(self, group: dict[str, Any], state: dict[str, Any], grad: torch.Tensor) -> Any:
        inf = group["norm_type"] == 0
        now = grad.abs().max() if inf else grad.norm()
        if "exp_avg_sq" not in state:
            state["exp_avg_sq"] = torch.zeros_like(now) if group["init_zero"] else now.clone()
        before, beta2 = state["exp_avg_sq"], group["betas"][1]
        if inf:
            blended = beta2 * before + (1 - beta2) * now
        else:
            blended = (beta2 * before.square() + (1 - beta2) * now.square()).sqrt()
        state["exp_avg_sq"] = blended
        return blended

    def _update(self, group: dict[str, Any], p: torch.Tensor, grad: torch.Tensor) -> None:
        state, decay, weight = self.state[p], group["weight_decay"], p.float()
        if not state:
            state["exp_avg"] = torch.zeros_like(p, dtype=torch.float32)
        beta1, beta2 = group["betas"]
        beta3 = 1 - beta1 if group["grad_averaging"] else 1.0
        c1 = c2 = 1.0
        if group["bias_correction"]:
            c1, c2 = 1 - beta1 ** group["step"], math.sqrt(1 - beta2 ** group["step"])
        scale = self._norm(group, state, grad) / c2 + group["eps"]
        if self.reg_inside_moment:
            grad = grad / scale + decay * weight
        moment = state["exp_avg"].mul_(beta1).add_(grad, alpha=beta3) / c1
        update = moment if self.reg_inside_moment else moment / scale + decay * weight
        p.copy_(weight - group["lr"] * update)
