"""How often a function compiles that is called for several positions."""

from __future__ import annotations

from collections.abc import Callable

import torch

from xla_migrate import runtime as xla


def compiles(slices: Callable[[int], torch.Tensor]) -> int:
    before = xla.metrics()["compiles"] or 0
    for start in range(6):
        kept = slices(start)
        xla.mark_step()
        del kept
    return (xla.metrics()["compiles"] or 0) - before
