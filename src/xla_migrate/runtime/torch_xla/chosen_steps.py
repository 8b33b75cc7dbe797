"""Optimizer steps that are conditional on the device: new weights and state if a condition holds, else the old ones.

The host continues as if all steps were taken, and learns later which were not: `step_counts` has what it computes until then.
"""

from __future__ import annotations

import warnings
import weakref
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

import torch

from ..deferred.reading import item
from .step_counts import Counting, Undecided, Unknown

_SLOTS = 32  # of numbers that the device picks one of; more than steps that may wait


def step_where(optimizer: Any, taken: torch.Tensor, arguments: Mapping[str, Any]) -> Any:
    """``optimizer.step(**arguments)`` where `taken`, a condition on the device, holds.

    The first steps, in which the optimizer creates its state, wait for the condition. So do all steps of
    optimizers that keep more on the host than a count of steps.
    """
    steps = _steps_of.get(optimizer)
    if steps is None:
        steps = _steps_of[optimizer] = _Steps(optimizer)
    steps.settle(wait=False)
    if not (steps.is_refused or steps.is_watched(optimizer)):
        parts = _Parts(optimizer)
        try:
            if steps.knows(parts):
                return steps.choose(optimizer, taken, arguments, parts)
        except Undecided:  # RAdam's first steps
            pass
        except Unknown:
            steps.is_refused = True  # from now on each step waits for its condition
    return steps.read(optimizer, taken, arguments)


class _Parts:
    """Values that a step may change: `chosen` on the device, `counts` and others on the host."""

    def __init__(self, optimizer: Any) -> None:
        self.chosen: list[torch.Tensor] = []
        self.counts: list[torch.Tensor] = []
        self.others: list[Any] = []
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    on_device = parameter.device.type == "xla"
                    (self.chosen if on_device else self.others).append(parameter)
                    for value in optimizer.state.get(parameter, {}).values():
                        self._place_of(value).append(value)

    def _place_of(self, value: Any) -> list[Any]:
        if not isinstance(value, torch.Tensor):
            return self.others
        if value.device.type == "xla":
            return self.chosen
        return self.counts if value.numel() == 1 else self.others

    def identity(self) -> tuple[int, ...]:
        """The same as long as these are the same tensors."""
        return (*map(id, self.chosen), *map(id, self.counts))

    def numbers(self) -> torch.Tensor:
        """Return the counts as one tensor."""
        counts = [part.reshape(()).double() for part in self.counts]
        return torch.stack(counts) if counts else torch.zeros(0)


class _Steps:
    """The steps of one optimizer."""

    def __init__(self, optimizer: Any) -> None:
        self._known: tuple[int, ...] = ()  # the parts of a step that was watched
        self._counts: list[torch.Tensor] = []  # those that it has added 1 to
        is_torchs = type(optimizer).__module__.startswith("torch.optim")
        self.is_refused = not is_torchs or optimizer.defaults.get("differentiable", False)
        self._waiting: deque[Any] = deque()  # whether steps were taken, oldest first
        self._missed = 0  # steps that are known to have been skipped
        self._skipped: torch.Tensor | None = None  # the device's count of them
        self._is_stepping = False
        self._is_told = False
        self._hook = optimizer.register_step_pre_hook(lambda *ignored: self._before_another())
        optimizer.register_state_dict_pre_hook(lambda *ignored: self.settle())
        optimizer.register_load_state_dict_pre_hook(lambda *ignored: self.settle())

    def knows(self, parts: _Parts) -> bool:
        """True if a step that was read has shown what a step of these parts changes."""
        return bool(self._known) and self._known == parts.identity()

    def is_watched(self, optimizer: Any) -> bool:
        """Return True if the script's hooks exist, which are called for steps that are taken."""
        before, behind = optimizer._optimizer_step_pre_hooks, optimizer._optimizer_step_post_hooks
        return bool(behind) or before.keys() != {self._hook.id}

    def _before_another(self) -> None:
        if not self._is_stepping:
            self.settle()

    def settle(self, *, wait: bool = True) -> None:
        """Take the steps back that the host has counted and the device skipped; all, or those that it knows of."""
        while self._waiting and (wait or not getattr(self._waiting[0], "waits", False)):
            if not self._waiting.popleft():
                self._missed += 1
                for number in self._counts:
                    number -= 1

    def read(self, optimizer: Any, taken: torch.Tensor, arguments: Mapping[str, Any]) -> Any:
        """Wait for the condition; watch what the step changes on the host."""
        self.settle()
        if not taken:
            return None
        if self.is_refused:
            self._tell(optimizer)
            return optimizer.step(**arguments)
        before = _Parts(optimizer)
        numbers = before.numbers()
        result = optimizer.step(**arguments)
        after = _Parts(optimizer)
        if before.identity() == after.identity():
            self._learn(after, after.numbers() - numbers)
        return result

    def _learn(self, parts: _Parts, added: torch.Tensor) -> None:
        self._known = parts.identity()
        self._counts = [c for c, more in zip(parts.counts, added.tolist(), strict=True) if more]
        self.is_refused = bool(parts.others) or not set(added.tolist()) <= {0.0, 1.0}

    def _tell(self, optimizer: Any) -> None:
        if self._is_told:
            return
        self._is_told = True
        warnings.warn(
            f"each step of {type(optimizer).__name__} waits for its condition, because the "
            "optimizer keeps more than a count of steps on the host",
            stacklevel=6,
        )

    @torch.no_grad()
    def choose(
        self, optimizer: Any, taken: torch.Tensor, arguments: Mapping[str, Any], parts: _Parts
    ) -> Any:
        """Step, and let the device choose between what was and what is. Raises `Unknown`, with nothing changed."""
        if len(self._waiting) >= _SLOTS - 2:
            self.settle()
        if self._skipped is None:
            self._skipped = torch.zeros(1, dtype=torch.int32, device=taken.device)
        counts = {id(number): number for number in self._counts}
        before = [part.detach().clone() for part in parts.chosen]
        # One more than may be missing: the graph is the same if nothing is.
        counting = Counting(counts, len(self._waiting) + 1, self._picker(taken.device))
        self._is_stepping = True
        try:
            with counting:
                result = optimizer.step(**arguments)
        except Unknown:
            for part, old in zip(parts.chosen, before, strict=True):
                part.copy_(old)
            for number in counting.counted:
                number -= 1
            raise
        finally:
            self._is_stepping = False
        for part, old in zip(parts.chosen, before, strict=True):
            part.copy_(torch.where(taken, part, old))
        self._skipped += ~taken
        self._waiting.append(item(taken))
        return result

    def _picker(self, device: torch.device) -> Callable[[tuple[float, ...], torch.dtype], Any]:
        """Picks, of numbers, that for as many steps as the device has skipped behind those that the host knows of.

        Each has its place in a ring, so that the graph is the same however many the host knows of.
        """
        assert self._skipped is not None
        place = self._skipped % _SLOTS
        picked: dict[tuple[tuple[float, ...], torch.dtype], torch.Tensor] = {}

        def pick(values: tuple[float, ...], dtype: torch.dtype) -> torch.Tensor:
            key = values, dtype
            if key not in picked:
                ring = [values[0]] * _SLOTS
                for k, value in enumerate(values):
                    ring[(self._missed + k) % _SLOTS] = value
                table = torch.tensor(ring, dtype=dtype).to(device)
                picked[key] = table.index_select(0, place).reshape(())
            return picked[key]

        return pick


_steps_of: weakref.WeakKeyDictionary[Any, _Steps] = weakref.WeakKeyDictionary()
