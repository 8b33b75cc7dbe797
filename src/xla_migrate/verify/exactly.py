"""Is it rounding? The same steps in float64, where rounding is a billion times less.

Some training amplifies rounding within one step: batch norm over few values, units near a kink, sums
that cancel. There two right implementations differ by more than any fixed tolerance in float32, the
original on other kernels from itself as well. So nothing is widened. Instead, each step is taken from
the original's weights, and

1. in float64 both compute the same, to the tolerance: losses, gradients and weights of every step;
2. in float32 each loss is within the tolerance of float64's, or all of them err no more than the
   original's own do on plain kernels (`child.arithmetic`): R = |target - float64| / |plain - float64|,
   by the limits of the bf16 criterion (`precision`).

The first shows that the migrated script computes the same; the second that it does so in float32.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from .divergence import Divergence, first_divergence
from .run import Run
from .tolerances import R_LIMIT, relative
from .verdict import Verdict


@dataclass(frozen=True)
class Exact:
    """Runs from the same weights at each step.

    Attributes:
        reference: the original in float64, which keeps its weights.
        target: the migrated script in float64, following.
        plain: the original in float32 on plain kernels, following; None where it was not needed.
        narrow: the migrated script in float32, following; None likewise.
    """

    reference: Run
    target: Run
    plain: Run | None = None
    narrow: Run | None = None

    @property
    def failed(self) -> Run | None:
        """One that could not be run."""
        runs = (self.reference, self.target, self.plain, self.narrow)
        return next((run for run in runs if run is not None and run.failure is not None), None)


def divergence(exact: Exact, allowed: float) -> Divergence | None:
    """Where the two part in float64."""
    found = [
        first_divergence(a, b, allowed, followed=True, exact=True)
        for a, b in zip(exact.reference.traces, exact.target.traces, strict=False)
    ]
    return min((d for d in found if d is not None), key=lambda d: d.event, default=None)


def rounding(exact: Exact, allowed: float, apart: float) -> Verdict:
    """Whether the migrated script, which computes the same in float64, rounds as float32 does.

    Args:
        exact: all four runs.
        allowed: the relative tolerance of losses.
        apart: by how much losses differ in the runs that were asked for.
    """
    name = "numbers"
    wide = _apart(exact.reference, exact.target)
    head = (
        f"in float64, each step from the original's weights: losses within {wide:.1e} relative,"
        f" gradients and weights too, allowed {allowed:.1e}; in float32 "
    )
    if exact.plain is None or exact.narrow is None:
        return Verdict(name, "failed", head + "they were not compared")
    narrow = _apart(exact.reference, exact.narrow)
    if narrow <= allowed:
        detail = f"within {narrow:.1e} of that: the rest is rounding, which this training amplifies"
        return Verdict(name, "ok", head + f"{detail} (left alone {apart:.1e})")
    ours, count = _error(exact.reference, exact.narrow)
    theirs, _ = _error(exact.reference, exact.plain)
    limit = R_LIMIT * (1 + 2 / math.sqrt(max(count, 1)))
    r = ours / theirs if theirs else math.inf
    detail = (
        f"within {narrow:.1e} of that, the original on other kernels within"
        f" {_apart(exact.reference, exact.plain):.1e}: R = {r:.2f}, allowed {limit:.2f}"
    )
    if r <= limit:
        detail += "; what parts them is rounding, which this training amplifies"
        return Verdict(name, "ok", f"{head}{detail} (left alone {apart:.1e})")
    return Verdict(name, "failed", f"{head}{detail}: it computes the same, but less precisely")


def _losses(a: Run, b: Run) -> list[tuple[float, float]]:
    """Of all processes, those that both have."""
    return [
        (x.loss, y.loss)
        for s, t in zip(a.traces, b.traces, strict=False)
        for x, y in zip(s.steps, t.steps, strict=False)
        if x.loss is not None and y.loss is not None
    ]


def _apart(a: Run, b: Run) -> float:
    pairs = _losses(a, b)
    scale = max((abs(x) for x, _ in pairs), default=0.0)
    return max((relative(x, y, scale) for x, y in pairs), default=math.inf)


def _error(a: Run, b: Run) -> tuple[float, int]:
    """Distance of the losses, and how many."""
    pairs = _losses(a, b)
    return math.dist(*zip(*pairs, strict=True)) if pairs else math.inf, len(pairs)
