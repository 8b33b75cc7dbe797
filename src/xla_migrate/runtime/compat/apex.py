"""Replacements for calls of apex: mixed precision of a model, and an optimizer that torch does not have."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.utils._pytree import tree_map_only

from ..devices import device_type
from ..precision import autocast


def mixed_precision(model: Any, enabled: bool = True) -> Any:
    """``apex.amp.initialize`` of a model: forward runs under ``autocast``, outputs are float32.

    Args:
        model: A module, or a list or tuple of them; it is changed in place and returned.
        enabled: If False, the model is returned unchanged.

    Returns:
        ``model``.

    Example:
        >>> model = xla.mixed_precision(model)
        >>> model(x).dtype
        torch.float32
    """
    if enabled:
        for module in model if isinstance(model, list | tuple) else [model]:
            _AutocastHooks().attach(module)
    return model


class _AutocastHooks:
    """Around a module's forward. Hooks are copied and pickled with the module."""

    def __init__(self) -> None:
        self._entered: list[torch.autocast] = []

    def attach(self, module: nn.Module) -> None:
        module.register_forward_pre_hook(self._enter)
        module.register_forward_hook(self._leave, always_call=True)

    def _enter(self, module: nn.Module, args: Any) -> None:
        context = autocast()
        context.__enter__()  # type: ignore[no-untyped-call]
        self._entered.append(context)

    def _leave(self, module: nn.Module, args: Any, output: Any) -> Any:
        if self._entered:
            self._entered.pop().__exit__(None, None, None)
        return tree_map_only(torch.Tensor, _single, output)


def _single(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.float() if tensor.dtype in (torch.bfloat16, torch.float16) else tensor


def cast_inputs(function: Any = None, dtype: torch.dtype = torch.float32) -> Any:
    """``apex.amp.half_function`` and ``float_function``: ``function`` computes in ``dtype`` under ``autocast``.

    Under ``autocast``, floating-point tensors among its arguments are cast, in tuples, lists and dicts as well,
    and it runs with autocast off. Elsewhere it is as it was. ``torch.amp.custom_fwd`` is for
    ``torch.autograd.Function.forward`` alone: it writes to its first argument.

    Args:
        function: Anything to call; without one a decorator comes back.
        dtype: What to compute in.

    Returns:
        A function that takes what ``function`` takes.

    Example:
        >>> torch.einsum = xla.cast_inputs(torch.einsum, torch.bfloat16)
    """
    if function is None:
        return functools.partial(cast_inputs, dtype=dtype)

    def cast(tensor: torch.Tensor) -> torch.Tensor:
        return tensor.to(dtype) if tensor.is_floating_point() else tensor

    @functools.wraps(function)
    def casting(*args: Any, **kwargs: Any) -> Any:
        if not torch.is_autocast_enabled(device_type()):
            return function(*args, **kwargs)
        args, kwargs = tree_map_only(torch.Tensor, cast, (args, kwargs))
        with autocast(enabled=False):
            return function(*args, **kwargs)

    return casting


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

    Raises:
        ValueError: for another ``norm_type``.

    Example:
        >>> optimizer = xla.NovoGrad(model.parameters(), lr=0.01)
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
