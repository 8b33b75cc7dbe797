"""deepspeed.ops.adam: FusedAdam and DeepSpeedCPUAdam (csrc/adam: the formulas of apex's kernel).

Both decay weights decoupled by default (adam_w_mode / adamw_mode), with decay 0.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch


class FusedAdam(torch.optim.Optimizer):
    """deepspeed.ops.adam.FusedAdam."""

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
    ) -> None:
        if amsgrad:
            raise RuntimeError("FusedAdam does not support the AMSGrad variant.")
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

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None, **deprecated: Any) -> Any:
        """One step."""
        loss = None
        if closure is not None:
            with torch.enable_grad():  # type: ignore[no-untyped-call]
                loss = closure()
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    self._update(group, p, p.grad.float())
        return loss

    def _update(self, group: dict[str, Any], p: torch.Tensor, grad: torch.Tensor) -> None:
        state, weight, decay = self.state[p], p.float(), group["weight_decay"]
        if not state:
            state["step"] = 0
            state["exp_avg"] = torch.zeros_like(weight)
            state["exp_avg_sq"] = torch.zeros_like(weight)
        state["step"] += 1
        if not self.adam_w_mode:
            grad = grad + decay * weight
        beta1, beta2 = group["betas"]
        state["exp_avg"].mul_(beta1).add_(grad, alpha=1 - beta1)
        state["exp_avg_sq"].mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
        c1 = c2 = 1.0
        if group["bias_correction"]:
            c1, c2 = 1 - beta1 ** state["step"], 1 - beta2 ** state["step"]
        update = (state["exp_avg"] / c1) / ((state["exp_avg_sq"] / c2).sqrt() + group["eps"])
        if self.adam_w_mode:
            update = update + decay * weight
        p.copy_(weight - group["lr"] * update)


class DeepSpeedCPUAdam(FusedAdam):
    """deepspeed.ops.adam.DeepSpeedCPUAdam: its argument order and names."""

    def __init__(
        self,
        model_params: Any,
        lr: float = 1e-3,
        bias_correction: bool = True,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        amsgrad: bool = False,
        adamw_mode: bool = True,
        fp32_optimizer_states: bool = True,
    ) -> None:
        super().__init__(
            model_params,
            lr,
            bias_correction,
            betas,
            eps,
            adamw_mode,
            weight_decay,
            amsgrad,
        )
