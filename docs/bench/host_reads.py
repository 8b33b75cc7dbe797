"""What reading later costs on the host: CPU time of `xla.item` and `xla.later` beside a plain `.item()`.

    python docs/bench/host_reads.py

A step computes one small loss, marks, and reads it. The time is the thread's own CPU time per step, without what the step
itself takes; the least of several rounds. On XLA:CPU the device shares the processors, so the wait is not in it.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from typing import Any

os.environ.setdefault("PJRT_DEVICE", "CPU")

import torch

from xla_migrate import runtime as xla

STEPS, ROUNDS = 200, 5


def per_step(read: Callable[[int, Any], None], weight: torch.Tensor) -> float:
    """Microseconds of this thread."""
    best = float("inf")
    for _ in range(ROUNDS):
        xla.flush()
        xla.synchronize()
        begin = time.thread_time()
        for step in range(STEPS):
            loss = (weight * 2).sum()
            xla.mark_step()
            read(step, loss)
        xla.flush()
        best = min(best, time.thread_time() - begin)
    return best / STEPS * 1e6


class Sum:
    """What a script does with the number."""

    value: Any = 0.0

    def plain(self, step: int, loss: Any) -> None:
        self.value += loss.item()

    def item(self, step: int, loss: Any) -> None:
        self.value += xla.item(loss)

    def printed(self, step: int, loss: Any) -> None:
        print(step, loss.item(), file=sys.stderr)

    def later(self, step: int, loss: Any) -> None:
        xla.later(lambda step=step, loss=loss: print(step, loss.item(), file=sys.stderr))


def main() -> None:
    """Print a table."""
    sys.stderr = open(os.devnull, "w")  # noqa: SIM115
    print(f"backend {xla.device_type()}, microseconds of CPU time a step")
    weight = torch.ones(4, device=xla.xla_device())
    per_step(Sum().plain, weight)  # compiles
    nothing = per_step(lambda step, loss: None, weight)
    for name in ("plain", "item", "printed", "later"):
        print(f"{name:10} {per_step(getattr(Sum(), name), weight) - nothing:8.1f}")


if __name__ == "__main__":
    main()
