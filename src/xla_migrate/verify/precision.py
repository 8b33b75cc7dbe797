"""The bf16 criterion: a target in bfloat16 may err as much as the original in bfloat16 does.

R = |target - fp32| / |bf16 - fp32| compares two rounding errors, each of which is as good as random:
over the losses of 12 steps alone, two equally precise runs exceed 1.2 more often than once in four.
So it is taken over everything that is recorded: the losses, the norm of each tensor's gradient, and
the projection of each weight. Quantities differ by magnitudes; each is measured in its own error,
that of both runs together: with t and b a quantity's squared errors over all steps,

    w = 2 t / (t + b)    R^2 = sum(w) / sum(2 - w)

which is R^2 = t / b for one quantity, and bounded in what one quantity can do.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from .run import Run
from .tolerances import R_LIMIT
from .trace import Step, Trace

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
        as_precise: the bf16 run's losses are those of float32: there is no R.
        alike: in that case, whether the target's are too.
    """

    r: float
    quantities: int
    of_losses: float
    count: int
    as_precise: bool = False
    alike: bool = True

    @property
    def limit(self) -> float:
        """R_LIMIT, and the chance of so few quantities: 1.5 for 16, 1.26 for 400."""
        return R_LIMIT * (1 + 1 / math.sqrt(max(self.quantities, 1)))

    @property
    def limit_of_losses(self) -> float:
        """What so few losses allow: at 12, equally precise runs exceed it once in fifty times."""
        return R_LIMIT * (1 + 2 / math.sqrt(self.count))


def ratios(fp32: Run, bf16: Run, target: Run) -> Ratios | None:
    """R of three runs of the same training, or None where they have no loss in common."""
    if not (fp32.traces and bf16.traces and target.traces):
        return None
    traces = fp32.traces[0], bf16.traces[0], target.traces[0]
    steps = list(zip(*(trace.steps for trace in traces), strict=False))
    losses = _errors((a.loss, b.loss, c.loss) for a, b, c in steps)
    if losses is None:
        return None
    size = math.sqrt(sum(a.loss**2 for a, _, _ in steps if a.loss is not None))
    count = sum(None not in (a.loss, b.loss, c.loss) for a, b, c in steps)
    theirs, ours = math.sqrt(losses[0]), math.sqrt(losses[1])
    if theirs <= _PRECISE * size:
        return Ratios(0.0, 0, 0.0, count, True, ours <= _ALIKE * size)
    rows = [losses, *_tensors(traces[0], steps)]
    weights = [2 * t / (t + b) if math.isfinite(t) else math.inf for b, t in rows if t + b > 0]
    left = sum(2 - w for w in weights)
    r = math.sqrt(sum(weights) / left) if left > 0 and math.isfinite(left) else math.inf
    return Ratios(r, len(weights), ours / theirs, count)


Triple = tuple[float | None, float | None, float | None]


def _errors(triples: Iterable[Triple]) -> tuple[float, float] | None:
    """Squared errors (of bf16, of the target) against float32, summed; None where there is nothing."""
    theirs = ours = 0.0
    seen = False
    for exact, bf16, target in triples:
        if exact is None or bf16 is None or target is None:
            continue
        seen = True
        theirs += (bf16 - exact) ** 2
        ours += (target - exact) ** 2
    return (theirs, ours) if seen and not math.isnan(theirs) else None


def _tensors(exact: Trace, steps: list[tuple[Step, ...]]) -> list[tuple[float, float]]:
    """Errors of each tensor's gradient norm, and of each weight's projection, by optimizer."""
    out = []
    for optimizer, parameters in exact.parameters.items():
        ours = [s for s in steps if all(one.optimizer == optimizer for one in s)]
        for i, parameter in enumerate(parameters):
            out.append(_errors(_gradients(s, i) for s in ours))
            if len(parameter.shape) >= 2 and parameter.trains:
                out.append(_errors(_projections(s, i) for s in ours))
    return [errors for errors in out if errors is not None]


def _gradients(steps: tuple[Step, ...], i: int) -> Triple:
    a, b, c = (s.gradient_of(i) if i < len(s.with_gradient) else None for s in steps)
    return a, b, c


def _projections(steps: tuple[Step, ...], i: int) -> Triple:
    a, b, c = (s.projections[i] if i < len(s.projections) else None for s in steps)
    return a, b, c
