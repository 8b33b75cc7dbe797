"""Optimizers that CUDA libraries have and torch has not."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from .devices import device_type


def supports_fused() -> bool:
    """Whether the accelerator has torch's fused optimizers: ``AdamW(..., fused=supports_fused())``.

    They raise on XLA parameters (xla-facts 3.26), where one graph holds the whole step anyway.
    """
    return device_type() == "cuda"


class NovoGrad(torch.optim.Optimizer):
    """NovoGrad as apex's ``FusedNovoGrad`` has it, on any device.

    The second moment is one number per tensor: the running norm of its gradient.

    Args:
        params: Parameters or groups of them.
        lr: The learning rate.
        bias_correction: Correct both moments for their start.
        betas: Decay of the first moment, and of the norm.
        eps: Added to the norm before it divides.
        weight_decay: Of the weights; part of the gradient with ``reg_inside_moment``.
        reg_inside_moment: Divide the gradient by its norm, and decay, before the first moment.
        grad_averaging: Take ``1 - beta1`` of the gradient into the first moment, not all of it.
        norm_type: 2, or 0 for the largest element.
        init_zero: Start the norm at 0, not at that of the first gradient.
    """

    def __init__(
        self,
        params: Any,
        lr: float = 1e-3,
        bias_correction: bool = True,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        reg_inside_moment: bool = False,
        grad_averaging: bool = True,
        norm_type: int = 2,
        init_zero: bool = False,
    ) -> None:
        if norm_type not in (0, 2):
            raise ValueError(f"NovoGrad(norm_type={norm_type}): must be 2, or 0 for the largest")
        defaults = {
            "lr": lr,
            "bias_correction": bias_correction,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "reg_inside_moment": reg_inside_moment,
            "grad_averaging": grad_averaging,
            "norm_type": norm_type,
            "init_zero": init_zero,
        }
        super().__init__(params, defaults)

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update the parameters; returns the closure's loss."""
        loss = None
        if closure is not None:
            with torch.enable_grad():  # type: ignore[no-untyped-call]
                loss = closure()
        for group in self.param_groups:
            group["step"] = group.get("step", 0) + 1
            for parameter in group["params"]:
                if parameter.grad is not None:
                    _update(group, self.state[parameter], parameter)
        return loss


def _update(group: dict[str, Any], state: dict[str, Any], parameter: torch.Tensor) -> None:
    assert parameter.grad is not None
    gradient, weight = parameter.grad.float(), parameter.float()
    if not state:
        state["exp_avg"] = torch.zeros_like(weight)
    beta1, beta2 = group["betas"]
    correction1 = correction2 = 1.0
    if group["bias_correction"]:
        correction1 = 1 - beta1 ** group["step"]
        correction2 = math.sqrt(1 - beta2 ** group["step"])
    scale = _running_norm(group, state, gradient) / correction2 + group["eps"]
    if group["reg_inside_moment"]:
        gradient = gradient / scale + group["weight_decay"] * weight
    share = 1 - beta1 if group["grad_averaging"] else 1.0
    moment = state["exp_avg"].mul_(beta1).add_(gradient, alpha=share) / correction1
    if not group["reg_inside_moment"]:
        moment = moment / scale + group["weight_decay"] * weight
    parameter.copy_(weight - group["lr"] * moment)


def _running_norm(
    group: dict[str, Any], state: dict[str, Any], gradient: torch.Tensor
) -> torch.Tensor:
    largest = group["norm_type"] == 0
    norm = gradient.abs().amax() if largest else gradient.norm()
    if "norm" not in state:
        state["norm"] = torch.zeros_like(norm) if group["init_zero"] else norm.clone()
    before, beta2 = state["norm"], group["betas"][1]
    running: torch.Tensor
    if largest:
        running = norm * (1 - beta2) + before * beta2
    else:
        running = (norm.square() * (1 - beta2) + before.square() * beta2).sqrt()
    state["norm"] = running
    return running
