"""bitsandbytes.optim (csrc/kernels.cu, kOptimizer32bit1State and kOptimizer32bit2State).

Note what differs from torch: Adam and AdamW decay weights alike, decoupled and *after* the update;
SGD needs a momentum, has no dampening and ignores nesterov; RMSprop's alpha is 0.99 and it has no
momentum; LAMB and LARS bound the update by max_unorm * |p|, in place of a trust ratio.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch


class _Optimizer(torch.optim.Optimizer):
    """Steps each parameter with the class's formula; options of the 8-bit machinery are accepted."""

    max_unorm = 0.0

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """One step."""
        loss = None
        if closure is not None:
            with torch.enable_grad():  # type: ignore[no-untyped-call]
                loss = closure()
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    state = self.state[p]
                    state["step"] = state.get("step", 0) + 1
                    p.copy_(self.update(group, state, p.float(), p.grad.float()))
        return loss

    def update(
        self, group: dict[str, Any], state: dict[str, Any], p: torch.Tensor, g: torch.Tensor
    ) -> torch.Tensor:
        """The parameter after the step."""
        raise NotImplementedError

    def bound(self, update: torch.Tensor, p: torch.Tensor, eps: float = 0.0) -> torch.Tensor:
        """The update, no longer than max_unorm * |p|."""
        if self.max_unorm <= 0:
            return update
        size, limit = update.norm(), self.max_unorm * p.norm() + eps
        return update * torch.where(size > limit, limit / size, torch.ones_like(size))


class Adam(_Optimizer):
    """bitsandbytes.optim.Adam."""

    def __init__(
        self,
        params: Any,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        amsgrad: bool = False,
        *args: Any,
        **options: Any,
    ) -> None:
        defaults = {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay}
        super().__init__(params, defaults)

    def update(
        self, group: dict[str, Any], state: dict[str, Any], p: torch.Tensor, g: torch.Tensor
    ) -> torch.Tensor:
        """Return p - lr * m/c1 / (sqrt(v)/c2 + eps), then decay."""
        beta1, beta2 = group["betas"]
        first = state.setdefault("state1", torch.zeros_like(p)).mul_(beta1).add_(g, alpha=1 - beta1)
        second = state.setdefault("state2", torch.zeros_like(p))
        second.mul_(beta2).addcmul_(g, g, value=1 - beta2)
        c1, c2 = 1 - beta1 ** state["step"], math.sqrt(1 - beta2 ** state["step"])
        update = first / c1 / (second.sqrt() / c2 + group["eps"])
        p = p - group["lr"] * self.bound(update, p)
        return p * (1 - group["lr"] * group["weight_decay"])  # type: ignore[no-any-return]


class AdamW(Adam):
    """bitsandbytes.optim.AdamW: Adam with another default."""

    def __init__(
        self,
        params: Any,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        *args: Any,
        **options: Any,
    ) -> None:
        super().__init__(params, lr, betas, eps, weight_decay, *args, **options)


class LAMB(Adam):
    """bitsandbytes.optim.LAMB."""

    def __init__(
        self,
        params: Any,
        lr: float = 1e-3,
        bias_correction: bool = True,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        *args: Any,
        max_unorm: float = 1.0,
        **options: Any,
    ) -> None:
        super().__init__(params, lr, betas, eps, weight_decay)
        self.max_unorm = max_unorm


class Lion(_Optimizer):
    """bitsandbytes.optim.Lion."""

    def __init__(
        self,
        params: Any,
        lr: float = 1e-4,
        betas: tuple[float, float] = (0.9, 0.99),
        weight_decay: float = 0,
        *args: Any,
        **options: Any,
    ) -> None:
        super().__init__(params, {"lr": lr, "betas": betas, "weight_decay": weight_decay})

    def update(
        self, group: dict[str, Any], state: dict[str, Any], p: torch.Tensor, g: torch.Tensor
    ) -> torch.Tensor:
        """Decay, then p - lr * sign(b1 m + (1 - b1) g)."""
        beta1, beta2 = group["betas"]
        moment = state.setdefault("state1", torch.zeros_like(p))
        p = p * (1 - group["lr"] * group["weight_decay"])
        p = p - group["lr"] * torch.sign(moment * beta1 + (1 - beta1) * g)
        moment.mul_(beta2).add_(g, alpha=1 - beta2)
        return p


class SGD(_Optimizer):
    """bitsandbytes.optim.SGD."""

    def __init__(
        self,
        params: Any,
        lr: float,
        momentum: float = 0,
        dampening: float = 0,
        weight_decay: float = 0,
        nesterov: bool = False,
        *args: Any,
        **options: Any,
    ) -> None:
        if momentum == 0:
            raise NotImplementedError("SGD without momentum is not supported!")
        super().__init__(params, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay})

    def update(
        self, group: dict[str, Any], state: dict[str, Any], p: torch.Tensor, g: torch.Tensor
    ) -> torch.Tensor:
        """Momentum without dampening."""
        g = g + group["weight_decay"] * p
        moment = state.setdefault("state1", torch.zeros_like(p))
        moment.mul_(0 if state["step"] == 1 else group["momentum"]).add_(g)
        return p - group["lr"] * self.bound(moment, p)  # type: ignore[no-any-return]


class LARS(SGD):
    """bitsandbytes.optim.LARS."""

    def __init__(self, *args: Any, max_unorm: float = 0.02, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.max_unorm = max_unorm


class RMSprop(_Optimizer):
    """bitsandbytes.optim.RMSprop."""

    def __init__(
        self,
        params: Any,
        lr: float = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum: float = 0,
        centered: bool = False,
        *args: Any,
        **options: Any,
    ) -> None:
        if alpha == 0:
            raise NotImplementedError("RMSprop with alpha==0.0 is not supported!")
        if centered:
            raise NotImplementedError("Centered RMSprop is not supported!")
        defaults = {"lr": lr, "alpha": alpha, "eps": eps, "weight_decay": weight_decay}
        super().__init__(params, defaults)

    def update(
        self, group: dict[str, Any], state: dict[str, Any], p: torch.Tensor, g: torch.Tensor
    ) -> torch.Tensor:
        """Return p - lr * g / (sqrt(v) + eps)."""
        g = g + group["weight_decay"] * p
        second = state.setdefault("state1", torch.zeros_like(p))
        second.mul_(group["alpha"]).addcmul_(g, g, value=1 - group["alpha"])
        return p - group["lr"] * g / (second.sqrt() + group["eps"])  # type: ignore[no-any-return]


class Adagrad(_Optimizer):
    """bitsandbytes.optim.Adagrad."""

    def __init__(
        self,
        params: Any,
        lr: float = 1e-2,
        lr_decay: float = 0,
        weight_decay: float = 0,
        initial_accumulator_value: float = 0,
        eps: float = 1e-10,
        *args: Any,
        **options: Any,
    ) -> None:
        if initial_accumulator_value != 0.0:
            raise ValueError("Initial accumulator value != 0.0 not supported!")
        if lr_decay != 0.0:
            raise ValueError("Lr Decay != 0.0 not supported!")
        super().__init__(params, {"lr": lr, "eps": eps, "weight_decay": weight_decay})

    def update(
        self, group: dict[str, Any], state: dict[str, Any], p: torch.Tensor, g: torch.Tensor
    ) -> torch.Tensor:
        """Return p - lr * g / (sqrt(sum) + eps)."""
        g = g + group["weight_decay"] * p
        total = state.setdefault("state1", torch.zeros_like(p)).addcmul_(g, g)
        return p - group["lr"] * g / (total.sqrt() + group["eps"])  # type: ignore[no-any-return]


class GlobalOptimManager:
    """Chooses which weights get 32-bit states; here all have them."""

    @classmethod
    def get_instance(cls) -> GlobalOptimManager:
        """The manager."""
        return cls()

    def register_parameters(self, params: Any) -> None:
        """Nothing to choose."""

    def register_module_override(self, module: Any, param_name: str, config: Any) -> None:
        """Nothing to choose."""

    def override_config(self, *args: Any, **kwargs: Any) -> None:
        """Nothing to choose."""


def _same(base: type[_Optimizer], *names: str) -> None:
    for name in names:
        globals()[name] = type(name, (base,), {"__module__": __name__, "__doc__": base.__doc__})


# Where states are kept (8 bit, 32 bit, paged out to the host) changes no formula.
_same(Adam, "Adam8bit", "Adam32bit", "PagedAdam", "PagedAdam8bit", "PagedAdam32bit")
_same(AdamW, "AdamW8bit", "AdamW32bit", "PagedAdamW", "PagedAdamW8bit", "PagedAdamW32bit")
_same(Lion, "Lion8bit", "Lion32bit", "PagedLion", "PagedLion8bit", "PagedLion32bit")
_same(LAMB, "LAMB8bit", "LAMB32bit")
_same(SGD, "SGD8bit", "SGD32bit")
_same(LARS, "LARS8bit", "LARS32bit")
_same(RMSprop, "RMSprop8bit", "RMSprop32bit")
_same(Adagrad, "Adagrad8bit", "Adagrad32bit")
