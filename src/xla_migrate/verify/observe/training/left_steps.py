"""Steps that `xla.optimizer_step(optimizer, where=condition)` does not take: the original has not called `step` there.

On XLA the device decides, and `step` is called all the same. The harness asks the condition, and makes no event of such a
step; its backward pass may be one that the original has left out, too.
"""

from __future__ import annotations

import functools
import sys
from typing import Any, Protocol

import torch

from ..device import counters
from ..process import clock
from ..process.patching import Patches
from . import losses

_STEPS = (
    "xla_migrate.runtime.step",
    "xla_runtime.step",
)  # the second of a project with a copy of the runtime


class _Told(Protocol):
    """Receives whether the current step is skipped, and after how many backward passes."""

    is_left: bool
    left: int
    counted: dict[str, float]


def watch(patches: Patches, tap: _Told) -> None:
    """Report such steps to `tap`, once the script has imported the runtime."""
    runtime = next((sys.modules[name] for name in _STEPS if name in sys.modules), None)
    if runtime is None or hasattr(runtime.step_if, "__wrapped__"):
        return
    step = runtime.step_if

    @functools.wraps(step)
    def watched(optimizer: Any, where: Any, *args: Any) -> Any:
        if where is True:
            return step(optimizer, where, *args)
        tap.is_left = not _holds(where, tap)
        try:
            out = step(optimizer, where, *args)
        finally:
            was_left, tap.is_left = tap.is_left, False
        if was_left:
            tap.left = len(losses.since_step)
        return out

    patches.put(runtime, "step_if", watched)


def _holds(where: Any, tap: _Told) -> bool:
    """The condition, read by the harness: its launch and its read are not the script's."""
    with clock.harness(), torch.no_grad(), torch._C.DisableTorchFunction():  # type: ignore[no-untyped-call]
        before = counters.sample()
        holds = bool(where)
        for name, more in counters.difference(counters.sample(), before).items():
            tap.counted[name] = tap.counted.get(name, 0) + more
    return holds
