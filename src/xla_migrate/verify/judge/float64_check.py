"""Is it rounding? The same steps in float64, where rounding is a billion times less.

Some training amplifies rounding within one step: batch norm over few values, units near a kink, sums
that cancel. There two right implementations differ by more than any fixed tolerance in float32. So
nothing is widened; instead, with each step taken from the original's weights,

1. in float64 both compute the same, to the tolerance: losses, gradients and weights of every step;
2. in float32 the losses are off by no more than the original's own are if every operation errs by up to
   the tolerance. That is measured, by a run of the original that makes such errors (`observe.numerics.arithmetic`),
   and taken together over the steps (`precision.pooled`), so that no step counts for more than another.

The first shows that the migrated script computes the same. The second shows that it does so in float32: if
training is benign, the losses have to meet the tolerance; if not, the operations have to (in terms of
numerical analysis: the backward error). bfloat16's operations err by 400 times 1e-5.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from .bf16 import pooled
from .divergence import Divergence, exact_scale, first_divergence
from .judgement import Check, Judgement, Status
from .observed import ObservedRun
from .tolerances import relative
from .trace import OptimizerStep


@dataclass(frozen=True)
class Float64Runs:
    """Runs that take each step from the original's weights.

    Attributes:
        reference: the original in float64.
        target: the migrated script in float64.
        rough: the original in float32 with errors of the tolerance in every operation; None if the
            first two differ already.
    """

    reference: ObservedRun
    target: ObservedRun
    rough: ObservedRun | None = None

    @property
    def failed(self) -> ObservedRun | None:
        """One that could not be run."""
        runs = (self.reference, self.target, self.rough)
        return next((run for run in runs if run is not None and run.failure is not None), None)

    @property
    def obstacle(self) -> str:
        """Why they could not be compared, to follow a verdict; nothing if they could."""
        failure = self.failed.failure if self.failed is not None else None
        return f"; in float64 they could not be compared: {failure.message}" if failure else ""


def divergence(exact: Float64Runs, allowed: float) -> Divergence | None:
    """The first difference of the two runs in float64."""
    found = [
        first_divergence(a, b, allowed, followed=True, exact=True)
        for a, b in zip(exact.reference.traces, exact.target.traces, strict=False)
    ]
    return min((d for d in found if d is not None), key=lambda d: d.event, default=None)


def rounding(
    exact: Float64Runs, followed: tuple[ObservedRun, ObservedRun], allowed: float, alone: float
) -> Judgement:
    """The verdict on a migrated script that computes the same in float64: does it round as float32 does?

    Args:
        exact: all three runs.
        followed: the original and the migrated script in float32, from the original's weights.
        allowed: the relative tolerance of losses.
        alone: the difference of losses in independent runs.
    """
    name = Check.NUMBERS
    head = (
        f"in float64, each step from the original's weights: losses within"
        f" {_apart(exact.reference, exact.target, is_exact=True):.1e} relative, gradients and weights too, allowed"
        f" {allowed:.1e}; in float32 losses within {_apart(*followed):.1e}"
    )
    if exact.rough is None:
        return Judgement(name, Status.FAILED, head)
    ours, theirs = _squares(*followed), _squares(followed[0], exact.rough)
    ratio = pooled(zip(theirs, ours, strict=False))
    detail = f"{head}: {ratio:.2g} times what errors of {allowed:.0e} in every operation do to the original"
    if ratio <= 1 and len(ours) == len(theirs):
        more = (
            f"; this training amplifies rounding (in independent runs they diverge by {alone:.1e})"
        )
        return Judgement(name, Status.OK, detail + more)
    return Judgement(name, Status.FAILED, f"{detail}: it computes the same, but less precisely")


def _losses(a: ObservedRun, b: ObservedRun) -> list[tuple[float, float, OptimizerStep]]:
    """Return the losses that both runs have, of all processes, with the step."""
    return [
        (x.loss, y.loss, x)
        for s, t in zip(a.traces, b.traces, strict=False)
        for x, y in zip(s.steps, t.steps, strict=False)
        if x.loss is not None and y.loss is not None
    ]


def _apart(a: ObservedRun, b: ObservedRun, is_exact: bool = False) -> float:
    pairs = _losses(a, b)
    scale = max((abs(x) for x, _, _ in pairs), default=0.0)
    return max(
        (relative(x, y, exact_scale(s, scale) if is_exact else scale) for x, y, s in pairs),
        default=math.inf,
    )


def _squares(a: ObservedRun, b: ObservedRun) -> list[float]:
    """Squared difference of each loss."""
    return [(x - y) ** 2 for x, y, _ in _losses(a, b)]
