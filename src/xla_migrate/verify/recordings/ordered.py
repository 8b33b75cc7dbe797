"""Verdicts over a recording, in a fixed order: data, initial weights, numbers; the first that fails ends it."""

from __future__ import annotations

from dataclasses import replace

from ..judge.compare import Comparison
from ..judge.divergence import Divergence, Quantity, at_the_start
from ..judge.judgement import Check, Judgement, Status
from . import data

# Failures that explain later ones.
_FAILURES: dict[str, str] = {
    Check.SAME_DATA: "the data differ",
    Check.SAME_WEIGHTS: "the initial weights differ",
    Check.NUMBERS: "the numbers differ",
    Check.BF16: "the numbers differ",
}
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
    found = comparison.divergence
    until = None if found is None else found.event
    batches = data.judge(comparison.reference, comparison.target, until)
    if batches.status is Status.FAILED and _numbers_agree(comparison):
        detail = f"{batches.detail}; the losses agree nevertheless"
        batches = replace(batches, status=Status.NOT_JUDGED, detail=detail)
    weights, start = _weights(comparison, allowed)
    verdicts, failed = [batches, weights, *comparison.verdicts], ""
    for at, verdict in enumerate(verdicts):
        if failed and verdict.name in _AFTER:
            detail = f"not judged: {failed}"
            verdicts[at] = replace(verdict, status=Status.NOT_JUDGED, detail=detail, where="")
        elif verdict.status is Status.FAILED:
            failed = failed or _FAILURES.get(verdict.name, "")
    if batches.status is Status.FAILED:
        found = None
    elif weights.status is Status.FAILED:
        found = start
    return replace(comparison, verdicts=verdicts, divergence=found)


def is_to_locate(comparison: Comparison) -> bool:
    """Return True if data and initial weights agree and the numbers do not: a module or the optimizer is at fault."""
    names = {v.name for v in comparison.failed}
    explained = names & {Check.SAME_DATA, Check.SAME_WEIGHTS, Check.SAME_STEPS}
    found = comparison.divergence
    if found is not None and found.quantity is Quantity.NO_GRADIENT:
        return False
    return bool(names & {Check.NUMBERS, Check.BF16}) and not explained


def _numbers_agree(comparison: Comparison) -> bool:
    judged = [v for v in comparison.verdicts if v.name in (Check.NUMBERS, Check.BF16)]
    return bool(judged) and all(v.status is Status.OK for v in judged)


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
