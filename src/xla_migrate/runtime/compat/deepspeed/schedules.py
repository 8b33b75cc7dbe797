"""DeepSpeed's schedules of the learning rate, stepped by the engine at each update."""

from __future__ import annotations

import math
from typing import Any


class _Schedule:
    """One that DeepSpeed's engine steps: behind each update it sets the rates of the next."""

    optimizer: Any
    last_batch_iteration: int

    def get_lr(self) -> list[float]:
        """The rate of each parameter group."""
        raise NotImplementedError

    def get_last_lr(self) -> list[float]:
        """The rates that were set last."""
        return self._last_lr

    def step(self, last_batch_iteration: int | None = None) -> None:
        """Set the rates of the next update."""
        following = self.last_batch_iteration + 1
        self.last_batch_iteration = (
            following if last_batch_iteration is None else last_batch_iteration
        )
        self._set(self.get_lr())

    def state_dict(self) -> dict[str, Any]:
        """As DeepSpeed saves it."""
        return {"last_batch_iteration": self.last_batch_iteration}

    def load_state_dict(self, sd: dict[str, Any]) -> None:
        """As DeepSpeed loads it: the rates change at the next step."""
        self.last_batch_iteration = sd["last_batch_iteration"]

    def _set(self, rates: list[float]) -> None:
        self._last_lr = rates
        for group, rate in zip(self.optimizer.param_groups, rates):
            group["lr"] = rate


class WarmupLR(_Schedule):
    """``deepspeed.runtime.lr_schedules.WarmupLR``: from `warmup_min_lr` up to `warmup_max_lr`, which then stays.

    The first update is at the lowest rate, as DeepSpeed's is.
    """

    def __init__(
        self,
        optimizer: Any,
        warmup_min_lr: float = 0.0,
        warmup_max_lr: float | None = None,
        warmup_num_steps: int = 1000,
        warmup_type: str = "log",
        last_batch_iteration: int = -1,
    ) -> None:
        self.optimizer = optimizer
        groups = optimizer.param_groups
        self.min_lrs = _of_groups(warmup_min_lr, groups)
        self.max_lrs = (
            [group["lr"] for group in groups]
            if warmup_max_lr is None
            else _of_groups(warmup_max_lr, groups)
        )
        self._warm_up(warmup_num_steps, warmup_type, last_batch_iteration)

    def _warm_up(self, steps: int, kind: str, last: int) -> None:
        self.warmup_num_steps = max(2, steps)
        self.warmup_type = kind
        self.last_batch_iteration = last
        self._set(self.get_lr())

    def get_lr(self) -> list[float]:
        """The rate of each parameter group."""
        if self.last_batch_iteration < 0:
            return list(self.min_lrs)
        gamma = self._gamma()
        return [low + (high - low) * gamma for low, high in zip(self.min_lrs, self.max_lrs)]

    def _gamma(self) -> float:
        return self._rise() if self.last_batch_iteration < self.warmup_num_steps else 1.0

    def _rise(self) -> float:
        if self.warmup_type == "linear":
            return self.last_batch_iteration / self.warmup_num_steps
        return math.log(self.last_batch_iteration + 1) / math.log(self.warmup_num_steps)


class WarmupDecayLR(WarmupLR):
    """``deepspeed.runtime.lr_schedules.WarmupDecayLR``: up, then down in a line until `total_num_steps`."""

    def __init__(
        self, optimizer: Any, total_num_steps: int, *, warmup_max_lr: float = 0.001, **rest: Any
    ) -> None:
        self.total_num_steps = total_num_steps
        super().__init__(optimizer, warmup_max_lr=warmup_max_lr, **rest)

    def _gamma(self) -> float:
        if self.last_batch_iteration < self.warmup_num_steps:
            return self._rise()
        left = self.total_num_steps - self.last_batch_iteration
        return max(0.0, left / max(1.0, self.total_num_steps - self.warmup_num_steps))


class WarmupCosineLR(WarmupLR):
    """``deepspeed.runtime.lr_schedules.WarmupCosineLR``: up to the optimizer's rate, then down along a cosine."""

    def __init__(
        self,
        optimizer: Any,
        total_num_steps: int,
        warmup_min_ratio: float = 0.0,
        warmup_num_steps: int = 1000,
        cos_min_ratio: float = 0.0001,
        warmup_type: str = "log",
        last_batch_iteration: int = -1,
    ) -> None:
        self.optimizer = optimizer
        self.total_num_steps = total_num_steps
        self.warmup_min_ratio, self.cos_min_ratio = warmup_min_ratio, cos_min_ratio
        self.max_lrs = [group["lr"] for group in optimizer.param_groups]
        self.min_lrs = [0.0] * len(self.max_lrs)
        self._warm_up(warmup_num_steps, warmup_type, last_batch_iteration)

    def _gamma(self) -> float:
        if self.last_batch_iteration < self.warmup_num_steps:
            return self.warmup_min_ratio + self._rise() * (1.0 - self.warmup_min_ratio)
        done = self.last_batch_iteration - self.warmup_num_steps + 1
        progress = min(1.0, done / max(1, self.total_num_steps - self.warmup_num_steps))
        fall = (1 + math.cos(math.pi * progress)) / 2
        return max(0.0, self.cos_min_ratio + (1.0 - self.cos_min_ratio) * fall)


class OneCycle(_Schedule):
    """``deepspeed.runtime.lr_schedules.OneCycle``: up and down once, betas the other way, and then down for good."""

    def __init__(
        self,
        optimizer: Any,
        cycle_min_lr: float,
        cycle_max_lr: float,
        decay_lr_rate: float = 0.0,
        cycle_first_step_size: int = 2000,
        cycle_second_step_size: int | None = None,
        cycle_first_stair_count: int = 0,
        cycle_second_stair_count: int | None = None,
        decay_step_size: int = 0,
        cycle_momentum: bool = True,
        cycle_min_mom: float = 0.8,
        cycle_max_mom: float = 0.9,
        decay_mom_rate: float = 0.0,
        last_batch_iteration: int = -1,
    ) -> None:
        self.optimizer = optimizer
        groups = optimizer.param_groups
        second = cycle_second_stair_count
        self._stairs = (
            cycle_first_stair_count,
            cycle_first_stair_count if second is None else second,
        )
        self._up = float(cycle_first_step_size)
        self._down = self._up if cycle_second_step_size is None else float(cycle_second_step_size)
        self._decay = decay_step_size, decay_lr_rate, decay_mom_rate
        self.min_lrs, self.max_lrs = (
            _of_groups(cycle_min_lr, groups),
            _of_groups(cycle_max_lr, groups),
        )
        self.cycle_momentum = cycle_momentum and "betas" in optimizer.defaults
        self._momenta = list(
            zip(_of_groups(cycle_min_mom, groups), _of_groups(cycle_max_mom, groups))
        )
        self.last_batch_iteration = last_batch_iteration
        if last_batch_iteration == -1:
            self._set(list(self.min_lrs))
            self._set_momenta([low for low, _ in self._momenta])

    def get_lr(self) -> list[float]:
        """The rate of each parameter group."""
        if not self._is_over():
            height = self._height()
            return [low + (high - low) * height for low, high in zip(self.min_lrs, self.max_lrs)]
        return [low / self._after(self._decay[1]) for low in self.min_lrs]

    def get_mom(self) -> list[float] | None:
        """The first beta of each parameter group; None if betas stay."""
        if not self.cycle_momentum:
            return None
        if not self._is_over():
            height = self._height()
            return [high - (high - low) * height for low, high in self._momenta]
        return [high * self._after(self._decay[2]) for _, high in self._momenta]

    def step(self, last_batch_iteration: int | None = None) -> None:
        """Set the rates, and the betas, of the next update."""
        super().step(last_batch_iteration)
        self._set_momenta(self.get_mom() or [])

    def _set_momenta(self, momenta: list[float]) -> None:
        if self.cycle_momentum:
            for group, momentum in zip(self.optimizer.param_groups, momenta):
                group["betas"] = (momentum, 0.99)

    def _is_over(self) -> bool:
        return self.last_batch_iteration >= self._up + self._down

    def _after(self, rate: float) -> float:
        """By what a value is scaled behind the cycle."""
        since = self.last_batch_iteration - (self._up + self._down) + 1
        return 1 + rate * since / self._decay[0] if self._decay[0] else 1.0

    def _height(self) -> float:
        """From 0 at the ends of the cycle to 1 at its peak."""
        at = (self.last_batch_iteration + 1) % (self._up + self._down)
        is_up = at <= self._up
        height = at / self._up if is_up else (self._up + self._down - at) / self._down
        stairs = self._stairs[0 if is_up else 1]
        return math.floor(height * stairs) / stairs if stairs > 0 else height


class LRRangeTest(_Schedule):
    """``deepspeed.runtime.lr_schedules.LRRangeTest``: up from a lowest rate forever, to see which is too high."""

    def __init__(
        self,
        optimizer: Any,
        lr_range_test_min_lr: float = 1e-3,
        lr_range_test_step_size: int = 2000,
        lr_range_test_step_rate: float = 1.0,
        lr_range_test_staircase: bool = False,
        last_batch_iteration: int = -1,
    ) -> None:
        self.optimizer = optimizer
        self.min_lr = _of_groups(lr_range_test_min_lr, optimizer.param_groups)
        self._step = lr_range_test_step_size, lr_range_test_step_rate, lr_range_test_staircase
        self.last_batch_iteration = last_batch_iteration
        if last_batch_iteration == -1:
            self._set(list(self.min_lr))

    def get_lr(self) -> list[float]:
        """The rate of each parameter group."""
        size, rate, is_stair = self._step
        interval = (self.last_batch_iteration + 1) / size
        return [
            low * (1 + rate * (math.floor(interval) if is_stair else interval))
            for low in self.min_lr
        ]


def _of_groups(value: Any, groups: list[Any]) -> list[float]:
    return list(value) if isinstance(value, (list, tuple)) else [value] * len(groups)


SCHEDULES: dict[str, Any] = {
    kind.__name__: kind for kind in (WarmupLR, WarmupDecayLR, WarmupCosineLR, OneCycle, LRRangeTest)
}
# Of `torch.optim.lr_scheduler`, which a configuration may name, too: those that are made of an optimizer and numbers.
OF_TORCH = frozenset(
    "StepLR MultiStepLR ConstantLR LinearLR ExponentialLR PolynomialLR CosineAnnealingLR CosineAnnealingWarmRestarts "
    "CyclicLR OneCycleLR".split()
)
