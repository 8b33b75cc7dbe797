"""The bf16 criterion: a target in bfloat16 may err as much as the original in bfloat16 does.

R = |target - fp32| / |bf16 - fp32| compares two rounding errors, each of which is as good as random:
over the losses of 12 steps alone, two equally precise runs exceed 1.2 more often than once in four.
So it is taken over everything that is recorded: the losses, the norm of each tensor's gradient, and
the projection of each weight. Quantities differ by magnitudes; each is measured in its own error,
that of both runs together: with t and b a quantity's squared errors over all steps,

    w = 2 t / (t + b)    R^2 = sum(w) / sum(2 - w)

which is R^2 = t / b for one quantity, and bounded in what one quantity can do.

Where R exceeds 1.2 by no more than chance may make it, the three runs are made twice more with weights
that are shaken after the first step, so that all rounding is another, and R is taken over all nine. For
their K quantities 1.2 (1 + 1/sqrt K) is allowed, what is left of chance. Allowing as much for one
training raises more false alarms and misses more (docs/bench/bf16.py simulates both).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from .observed import ObservedRun
from .tolerances import R_LIMIT
from .trace import OptimizerStep, Trace

_ALIKE = 1e-5  # of the losses' own size: float32's tolerance
_PRECISE = 1e-7  # an error of the bf16 run below this is none


@dataclass(frozen=True)
class Ratios:
    """R and what it was taken over.

    Attributes:
        r: over all quantities.
        quantities: how many.
        of_losses: R over the losses alone.
        count: how many losses.
        as_precise: the bf16 run's losses equal float32's, so there is no R.
        alike: in that case, whether the target's are too.
        trainings: over how many.
    """

    r: float
    quantities: int
    of_losses: float
    count: int
    as_precise: bool = False
    alike: bool = True
    trainings: int = 1

    @property
    def within(self) -> bool:
        """True if the target errs no more than it may."""
        return self.r <= self.limit and self.of_losses <= self.limit_of_losses

    @property
    def limit(self) -> float:
        """R_LIMIT; of several trainings also what is left of chance, over all their quantities."""
        if self.trainings == 1:
            return R_LIMIT
        return R_LIMIT * (1 + 1 / math.sqrt(max(self.quantities, 1)))

    @property
    def limit_of_losses(self) -> float:
        """Return the limit for so few losses: at 12, equally precise runs exceed it once in fifty times.

        Further trainings do not lower it: a step's losses err alike in all of them.
        """
        return R_LIMIT * (1 + 2 / math.sqrt(self.count / self.trainings))


def ratios(*trainings: tuple[ObservedRun, ObservedRun, ObservedRun]) -> Ratios | None:
    """R of trainings, each run three times: in float32, in bf16, and the target.

    Args:
        trainings: the one that was asked for, and others that are as good, to leave less to chance.

    Returns:
        None where three runs have no loss in common.
    """
    rows: list[tuple[float, float]] = []
    theirs = ours = size = 0.0
    count = 0
    for runs in trainings:
        if not all(run.traces for run in runs):
            return None
        steps = list(zip(*(run.traces[0].steps for run in runs), strict=False))
        losses = _errors((a.loss, b.loss, c.loss) for a, b, c in steps)
        if losses is None:
            return None
        theirs, ours = theirs + losses[0], ours + losses[1]
        size += sum(a.loss**2 for a, _, _ in steps if a.loss is not None)
        count += sum(None not in (a.loss, b.loss, c.loss) for a, b, c in steps)
        rows += [losses, *_tensors(runs[0].traces[0], steps)]
    size, theirs, ours = map(math.sqrt, (size, theirs, ours))
    if theirs <= _PRECISE * size:
        return Ratios(0.0, 0, 0.0, count, True, ours <= _ALIKE * size)
    quantities = sum(b + t > 0 for b, t in rows)
    return Ratios(pooled(rows), quantities, ours / theirs, count, trainings=len(trainings))


def pooled(rows: Iterable[tuple[float, float]]) -> float:
    """R of quantities' squared errors (of bf16, of the target)."""
    weights = [2 * t / (t + b) if math.isfinite(t) else math.inf for b, t in rows if t + b > 0]
    left = sum(2 - w for w in weights)
    return math.sqrt(sum(weights) / left) if left > 0 and math.isfinite(left) else math.inf


Triple = tuple[float | None, float | None, float | None]


def _errors(triples: Iterable[Triple]) -> tuple[float, float] | None:
    """Squared errors (of bf16, of the target) against float32, summed; None if there is nothing."""
    theirs = ours = 0.0
    seen = False
    for exact, bf16, target in triples:
        if exact is None or bf16 is None or target is None:
            continue
        seen = True
        theirs += (bf16 - exact) ** 2
        ours += (target - exact) ** 2
    return (theirs, ours) if seen and not math.isnan(theirs) else None


def _tensors(exact: Trace, steps: list[tuple[OptimizerStep, ...]]) -> list[tuple[float, float]]:
    """Errors of each tensor's gradient norm, and of each weight's projection, by optimizer."""
    out = []
    for optimizer, parameters in exact.parameters.items():
        ours = [s for s in steps if all(one.optimizer == optimizer for one in s)]
        for i, parameter in enumerate(parameters):
            out.append(_errors(_gradients(s, i) for s in ours))
            if len(parameter.shape) >= 2 and parameter.trains:
                out.append(_errors(_projections(s, i) for s in ours))
    return [errors for errors in out if errors is not None]


def _gradients(steps: tuple[OptimizerStep, ...], i: int) -> Triple:
    a, b, c = (s.gradient_of(i) if i < len(s.with_gradient) else None for s in steps)
    return a, b, c


def _projections(steps: tuple[OptimizerStep, ...], i: int) -> Triple:
    a, b, c = (s.projections[i] if i < len(s.projections) else None for s in steps)
    return a, b, c
