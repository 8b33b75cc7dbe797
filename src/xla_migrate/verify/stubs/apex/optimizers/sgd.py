"""FusedSGD and FusedAdagrad (multi_tensor_sgd_kernel.cu, multi_tensor_adagrad.cu)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from .base import FusedOptimizer


class FusedSGD(FusedOptimizer):
    """apex.optimizers.FusedSGD: torch's SGD, with decay after the momentum on request."""

    def __init__(
        self,
        params: Any,
        lr: float,
        momentum: float = 0,
        dampening: float = 0,
        weight_decay: float = 0,
        nesterov: bool = False,
        wd_after_momentum: bool = False,
        materialize_master_grads: bool = True,
        set_grad_none: bool = False,
    ) -> None:
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError("Nesterov momentum requires a momentum and zero dampening")
        super().__init__(
            params,
            {
                "lr": lr,
                "momentum": momentum,
                "dampening": dampening,
                "weight_decay": weight_decay,
                "nesterov": nesterov,
            },
        )
        self.wd_after_momentum = wd_after_momentum
        self.set_grad_none = set_grad_none

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """One step."""
        loss = self._closure(closure)
        for group in self.param_groups:
            momentum, decay = group["momentum"], group["weight_decay"]
            for p, grad in self.with_grad(group):
                weight = p.float()
                if decay and not self.wd_after_momentum:
                    grad = grad + decay * weight
                if momentum:
                    state = self.state[p]
                    if "momentum_buffer" not in state:  # the first step takes the gradient as it is
                        state["momentum_buffer"] = grad.clone()
                    else:
                        buffer = state["momentum_buffer"]
                        buffer.mul_(momentum).add_(grad, alpha=1 - group["dampening"])
                    buffer = state["momentum_buffer"]
                    grad = grad + momentum * buffer if group["nesterov"] else buffer
                if decay and self.wd_after_momentum:
                    grad = grad + decay * weight
                p.copy_(weight - group["lr"] * grad)
        return loss


class FusedAdagrad(FusedOptimizer):
    """apex.optimizers.FusedAdagrad: no learning-rate decay; decoupled weight decay on request."""

    def __init__(
        self,
        params: Any,
        lr: float = 1e-2,
        eps: float = 1e-10,
        weight_decay: float = 0.0,
        set_grad_none: bool = True,
        adagrad_w_mode: bool = False,
    ) -> None:
        super().__init__(params, {"lr": lr, "eps": eps, "weight_decay": weight_decay})
        self.adagrad_w_mode = adagrad_w_mode
        self.set_grad_none = set_grad_none

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """One step."""
        loss = self._closure(closure)
        for group in self.param_groups:
            decay = group["weight_decay"]
            for p, grad in self.with_grad(group):
                weight = p.float()
                if not self.adagrad_w_mode:
                    grad = grad + decay * weight
                total = self.state[p].setdefault("sum", torch.zeros_like(grad))
                total.addcmul_(grad, grad)
                update = grad / (total.sqrt() + group["eps"])
                if self.adagrad_w_mode:
                    update = update + decay * weight
                p.copy_(weight - group["lr"] * update)
        return loss
