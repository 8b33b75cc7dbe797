"""Optimizers of DeepSpeed's that torch has not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch


@torch.no_grad()
def _step(optimizer: Any, closure: Callable[[], Any] | None) -> Any:
    """One step of an optimizer that updates parameters one by one."""
    loss = None
    if closure is not None:
        with torch.enable_grad():  # type: ignore[no-untyped-call]
            loss = closure()
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            if parameter.grad is not None:
                optimizer._update(group, parameter, parameter.grad)
    return loss


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

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """One step."""
        return _step(self, closure)

    def _update(self, group: dict[str, Any], parameter: torch.Tensor, grad: torch.Tensor) -> None:
        state = self.state[parameter]
        if not state:
            state["exp_avg"] = torch.zeros_like(parameter)
        (beta1, beta2), average = group["betas"], state["exp_avg"]
        falls = average * beta1 + grad * (1 - beta1) > 0
        parameter.mul_(1 - group["lr"] * group["weight_decay"])
        parameter.add_(torch.where(falls, -1.0, 1.0).to(parameter.dtype) * group["lr"])
        average.mul_(beta2).add_(grad * (1 - beta2))


class BoundedLamb(torch.optim.Optimizer):
    """``deepspeed.ops.lamb.FusedLamb``: Adam's step, as long as the parameter, within bounds.

    The number of the step is on the device: what follows of it would compile anew for each.

    Args:
        params: Parameters or groups of them.
        lr: The learning rate.
        bias_correction: Correct the moments for their start.
        betas: Decay of the moments.
        eps: Added before the division.
        eps_inside_sqrt: Add it to what the root is of.
        weight_decay: Of the weights; part of the step that is measured.
        max_grad_norm: 0: clip gradients by themselves.
        max_coeff: The largest ratio of parameter and step.
        min_coeff: The smallest.
        amsgrad: False.

    Raises:
        ValueError: for ``max_grad_norm`` and ``amsgrad``.

    Example:
        >>> optimizer = xla.BoundedLamb(model.parameters(), lr=1e-3)
        >>> model(x).sum().backward()
        >>> xla.optimizer_step(optimizer)
    """

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
        if amsgrad or max_grad_norm:
            name = "amsgrad" if amsgrad else "max_grad_norm"
            raise ValueError(
                f"Lamb has no `{name}` here: clip norms by `gradient_clipping`, or clip_grad_norm_"
            )
        options = {"lr": lr, "bias_correction": bias_correction, "betas": betas, "eps": eps}
        options |= {"eps_inside_sqrt": eps_inside_sqrt, "weight_decay": weight_decay}
        super().__init__(params, {**options, "max_coeff": max_coeff, "min_coeff": min_coeff})

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """One step."""
        return _step(self, closure)

    def _update(self, group: dict[str, Any], parameter: torch.Tensor, grad: torch.Tensor) -> None:
        state, (beta1, beta2) = self.state[parameter], group["betas"]
        if not state:
            state["step"] = torch.zeros((), dtype=torch.float32, device=parameter.device)
            state["exp_avg"] = torch.zeros_like(parameter)
            state["exp_avg_sq"] = torch.zeros_like(parameter)
        count = state["step"].add_(1)
        first = state["exp_avg"].mul_(beta1).add_(grad * (1 - beta1))
        second = state["exp_avg_sq"].mul_(beta2).add_(grad * grad * (1 - beta2))
        within = group["eps_inside_sqrt"]
        root = (second + group["eps"]).sqrt() if within else second.sqrt() + group["eps"]
        update = first / root + parameter * group["weight_decay"]
        size, change = parameter.norm(), update.norm()
        ratio = torch.where(change > 0, size / change, torch.ones_like(size))
        ratio = ratio.clamp(group["min_coeff"], group["max_coeff"])
        ratio = torch.where((size > 0) & (change > 0), ratio, torch.ones_like(ratio))
        if group["bias_correction"]:
            ratio = ratio * (1 - beta2**count).sqrt() / (1 - beta1**count)
        parameter.sub_(update * (ratio * group["lr"]).to(parameter.dtype))


# By their names in a configuration.
OWN = {"Lamb": BoundedLamb, "Lion": FusedLion}
