"""DeepSpeed's schedules of the learning rate, stepped by the engine at each update."""

from __future__ import annotations

import math
from typing import Any


class WarmupLR:
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
        self._set()

    def get_lr(self) -> list[float]:
        """The rate of each parameter group."""
        if self.last_batch_iteration < 0:
            return list(self.min_lrs)
        gamma = self._gamma()
        return [low + (high - low) * gamma for low, high in zip(self.min_lrs, self.max_lrs)]

    def get_last_lr(self) -> list[float]:
        """The rates that were set last."""
        return self._last_lr

    def step(self, last_batch_iteration: int | None = None) -> None:
        """Set the rates of the next update."""
        following = self.last_batch_iteration + 1
        self.last_batch_iteration = (
            following if last_batch_iteration is None else last_batch_iteration
        )
        self._set()

    def state_dict(self) -> dict[str, Any]:
        """As DeepSpeed saves it."""
        return {"last_batch_iteration": self.last_batch_iteration}

    def load_state_dict(self, sd: dict[str, Any]) -> None:
        """As DeepSpeed loads it: the rates change at the next step."""
        self.last_batch_iteration = sd["last_batch_iteration"]

    def _set(self) -> None:
        self._last_lr = self.get_lr()
        for group, rate in zip(self.optimizer.param_groups, self._last_lr):
            group["lr"] = rate

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


def _of_groups(value: Any, groups: list[Any]) -> list[float]:
    return list(value) if isinstance(value, (list, tuple)) else [value] * len(groups)


SCHEDULES: dict[str, type[WarmupLR]] = {
    kind.__name__: kind for kind in (WarmupLR, WarmupDecayLR, WarmupCosineLR)
}
