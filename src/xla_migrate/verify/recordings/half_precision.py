"""The first module that is less precise than the original in half precision.

R of a module is the error of its output, or gradient, against float32, divided by the same error of the original's own
run in bfloat16. Other kernels reach 1.3; a smaller difference is within rounding. Parameters have no
meaningful R: Adam's first step amplifies noise.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ..judge.details import ModuleCalls
from ..judge.judgement import Check, Judgement, Status
from ..judge.observed import ObservedRun
from ..judge.tolerances import R_BY_CHANCE
from .first_wrong_module import CallPair, WrongModule, gradients_of

_LEAST = 1e-4  # relative error of the original that counts: far below a unit of bfloat16
_FEWEST = 16  # different values of a tensor: R over fewer is chance


@dataclass(frozen=True)
class _Ratio:
    """R of one tensor, with a description of where it is computed, and the module."""

    r: float
    what: str
    module: WrongModule


def judge(exact: ObservedRun, lower: ObservedRun, target: ObservedRun) -> Judgement:
    """Return the verdict on the modules in the first step.

    Args:
        exact: the original in float32, with details.
        lower: the original in bfloat16, with details.
        target: the migrated script in bfloat16, with details.
    """
    found = [
        ratio
        for traces in zip(exact.traces, lower.traces, target.traces, strict=False)
        for ratio in _ratios(*(trace.details.modules.get(0) for trace in traces))
    ]
    if not found:
        return Judgement(Check.MODULES, Status.NOT_JUDGED, "no calls of modules could be compared")
    before = 0.0
    for one in found:
        if one.r > R_BY_CHANCE:
            detail = (
                f"step 1: `{one.module.name}` ({one.module.kind}): R = {one.r:.3g} for {one.what}, at most"
                f" {before:.2g} before it (allowed {R_BY_CHANCE:g}): less precise than the original in bfloat16"
            )
            return Judgement(Check.MODULES, Status.FAILED, detail, one.module.where)
        before = max(before, one.r)
    detail = (
        f"R at most {before:.2g} for {len(found)} outputs and gradients of modules in the first step: smaller"
        " differences are not distinguishable from bfloat16's rounding"
    )
    return Judgement(Check.MODULES, Status.OK, detail)


def _ratios(
    exact: ModuleCalls | None, lower: ModuleCalls | None, target: ModuleCalls | None
) -> Iterator[_Ratio]:
    """Yield R of each output, as they came, then of each gradient."""
    if exact is None or lower is None or target is None:
        return
    theirs, ours = CallPair(exact, lower), CallPair(exact, target)
    judged = set[int]()
    for call, side, _, tensor in exact.uses:
        if side and tensor not in judged and tensor in theirs.tensors and tensor in ours.tensors:
            judged.add(tensor)
            rows = lower.tensors[theirs.tensors[tensor]], target.tensors[ours.tensors[tensor]]
            r = _r(exact.tensors[tensor], *rows)
            if r is not None and call in ours.calls:
                yield _Ratio(r, "its output", ours.wrong(call, "output", 0.0, r))
    for tensor, n, row in gradients_of(exact):
        pair = [one.gradients.get((one.tensors.get(tensor, -1), n)) for one in (theirs, ours)]
        consumers = ours.consumers(tensor)
        if pair[0] is None or pair[1] is None or not consumers:
            continue
        r = _r(row, *(_unscaled(row, one) for one in pair if one is not None))
        if r is not None:
            what = "the gradient that it passes back"
            yield _Ratio(r, what, ours.wrong(consumers[-1], what, 0.0, r))


def _r(exact: Sequence[float], lower: Sequence[float], target: Sequence[float]) -> float | None:
    """Return R over the elements at fixed indices; None if it says nothing."""
    if len(set(exact[3:])) < _FEWEST:
        return None
    size = math.sqrt(math.fsum(x * x for x in exact[3:]))
    theirs, ours = (_apart(exact, one) for one in (lower, target))
    if not (size and math.isfinite(size) and math.isfinite(theirs)):
        return None
    return ours / max(theirs, _LEAST * size)


def _apart(a: Sequence[float], b: Sequence[float]) -> float:
    found = math.sqrt(math.fsum((x - y) ** 2 for x, y in zip(a[3:], b[3:], strict=True)))
    return math.inf if math.isnan(found) else found


def _unscaled(exact: Sequence[float], row: Sequence[float]) -> Sequence[float]:
    """Return the row without a loss scaler's factor, a power of two, that the exact one does not have."""
    if not (exact[0] and row[0] and math.isfinite(exact[0]) and math.isfinite(row[0])):
        return row
    factor = 2.0 ** round(math.log2(row[0] / exact[0]))
    return [value / factor for value in row]
