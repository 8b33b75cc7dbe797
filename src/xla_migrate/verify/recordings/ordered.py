"""Verdicts over a recording, in a fixed order: data, initial weights, numbers; the first that fails ends it."""

from __future__ import annotations

from dataclasses import replace

from ..judge.compare import Comparison
from ..judge.divergence import Divergence, Quantity, at_the_start
from ..judge.judgement import Check, Judgement, Status

# Failures that explain later ones.
_FAILURES: dict[str, str] = {
    Check.SAME_DATA: "the data differ",
    Check.SAME_WEIGHTS: "the initial weights differ",
    Check.NUMBERS: "the numbers differ",
    Check.BF16: "the numbers differ",
}
_NO_DATA = Judgement(Check.SAME_DATA, Status.NOT_JUDGED, "no batch was seen in both runs")
# Verdicts that such a failure makes meaningless.
_AFTER = {
    Check.SAME_WEIGHTS,
    Check.NUMBERS,
    Check.BF16,
    Check.OTHER_STATE,
    Check.PRINTED,
    Check.METRIC,
}


def in_order(comparison: Comparison, allowed: float) -> Comparison:
    """Return the comparison with the verdicts on data and initial weights; nothing is blamed after the first failure.

    Args:
        comparison: of the recorded run and the migrated script's.
        allowed: the relative tolerance.
    """
    if not comparison.could_run:
        return comparison
    weights, start = _weights(comparison, allowed)
    others = [v for v in comparison.verdicts if v.name != Check.SAME_DATA]
    data = [v for v in comparison.verdicts if v.name == Check.SAME_DATA] or [_NO_DATA]
    found = start if weights.status is Status.FAILED else comparison.divergence
    ordered = replace(comparison, verdicts=[*data, weights, *others], divergence=found)
    return without_consequences(ordered)


def without_consequences(comparison: Comparison) -> Comparison:
    """Return the comparison without a verdict on what other data, weights or numbers explain."""
    verdicts, failed = list(comparison.verdicts), ""
    for at, verdict in enumerate(verdicts):
        if failed and verdict.name in _AFTER:
            detail = f"not judged: {failed}"
            verdicts[at] = replace(verdict, status=Status.NOT_JUDGED, detail=detail, where="")
        elif verdict.status is Status.FAILED:
            failed = failed or _FAILURES.get(verdict.name, "")
    has_other_data = any(v.name == Check.SAME_DATA for v in comparison.failed)
    found = None if has_other_data else comparison.divergence
    return replace(comparison, verdicts=verdicts, divergence=found)


def is_to_locate(comparison: Comparison) -> bool:
    """Return True if data and initial weights agree and the numbers do not: a module or the optimizer is at fault."""
    names = {v.name for v in comparison.failed}
    explained = names & {Check.SAME_DATA, Check.SAME_WEIGHTS, Check.SAME_STEPS}
    found = comparison.divergence
    if found is not None and found.quantity is Quantity.NO_GRADIENT:
        return False
    return bool(names & {Check.NUMBERS, Check.BF16}) and not explained


def _weights(comparison: Comparison, allowed: float) -> tuple[Judgement, Divergence | None]:
    """Return the verdict on what the optimizers step on before their first steps, and the first difference."""
    name, theirs, ours = Check.SAME_WEIGHTS, comparison.reference.traces, comparison.target.traces
    for a, b in zip(theirs, ours, strict=False):
        found = at_the_start(a, b, allowed)
        if found is not None:
            return Judgement(name, Status.FAILED, str(found), found.where), found
    if not all(trace.initial for trace in (*theirs, *ours)):
        return Judgement(name, Status.NOT_JUDGED, "not recorded"), None
    count = sum(len(p) for trace in theirs for p in trace.parameters.values())
    text = "1 tensor agrees" if count == 1 else f"{count} tensors agree"
    return Judgement(name, Status.OK, text), None
