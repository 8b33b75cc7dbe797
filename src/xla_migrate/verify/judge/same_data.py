"""Do both runs train on the same data? Batches of the loaders first, then what the models are given."""

from __future__ import annotations

import math
from collections.abc import Sequence

from .details import Drawn, Field
from .judgement import Check, Judgement, Status
from .observed import ObservedRun
from .trace import Trace

_ALIKE = 1e-4  # relative, of a row: another machine may round a transformation differently


def judge(
    reference: ObservedRun, target: ObservedRun, until: int | None = None
) -> Judgement | None:
    """Return the verdict over all processes, which names the first batch that differs; None if both runs have no batch.

    Args:
        reference: the original's run.
        target: the migrated script's.
        until: the event from which the numbers differ, if any: later data may depend on it.
    """
    compared = 0
    for a, b in zip(reference.traces, target.traces, strict=False):
        difference, count = _of_process(a, b, until)
        compared += count
        if difference:
            rank = f"rank {a.rank}: " if len(reference.traces) > 1 else ""
            return Judgement(Check.SAME_DATA, Status.FAILED, rank + difference)
    if not compared:
        return None
    return Judgement(Check.SAME_DATA, Status.OK, f"{compared} batches agree")


def _of_process(a: Trace, b: Trace, until: int | None) -> tuple[str, int]:
    """Return (the first difference or "", how many batches were compared)."""
    last = math.inf if until is None else max(until, 0)
    batches = sorted(a.details.batches.keys() & b.details.batches.keys())
    batches = [
        key for key in batches if key not in a.details.drawn or a.details.drawn[key].event <= last
    ]
    several = len({loader for loader, _ in batches}) > 1
    for loader, number in batches:
        theirs, ours = (one.details.batches[loader, number] for one in (a, b))
        difference = compare(theirs, ours)
        if difference:
            place = _place(a.details.drawn.get((loader, number)), number)
            which = f" of loader {loader + 1}" if several else ""
            return f"{place}{which}: {difference}", 0
    events = sorted(a.details.inputs.keys() & b.details.inputs.keys())
    events = [event for event in events if event <= last]
    for event in events:
        theirs, ours = (_data(one.details.inputs[event]) for one in (a, b))
        if not _has_same_tensors(theirs, ours):
            continue  # one of them wraps its model, or passes it other arguments
        difference = compare(theirs, ours)
        if difference:
            return f"step {event + 1}: {difference}", 0
    return "", len(batches) or len(events)


def _place(drawn: Drawn | None, number: int) -> str:
    if drawn is None or drawn.turn == 1:
        return f"batch {number + 1}"
    return f"pass {drawn.turn}, batch {drawn.place + 1}"


def _data(inputs: Sequence[Field]) -> list[Field]:
    """Return the tensors that are data: of the first call, and labels; others may be computed."""
    return [f for f in inputs if f.name.startswith("0.") or f.integers]


def _has_same_tensors(a: Sequence[Field], b: Sequence[Field]) -> bool:
    return [(f.name, f.shape) for f in a] == [(f.name, f.shape) for f in b]


def compare(reference: Sequence[Field], target: Sequence[Field]) -> str:
    """Return how two batches differ, or ""."""
    ours = {f.name: f for f in target}
    for theirs in reference:
        mine = ours.get(theirs.name)
        if mine is None:
            return f"the migrated script has no tensor `{theirs.name}`"
        if mine.shape != theirs.shape:
            return f"`{theirs.name}` has shape {list(theirs.shape)} in the original, {list(mine.shape)} here"
    apart = [f for f in reference if not _alike(f.rows, ours[f.name].rows)]
    if not apart:
        return ""
    if all(_alike(sorted(f.rows), sorted(ours[f.name].rows)) for f in apart):
        return "samples in a different order"
    theirs, mine = apart[0], ours[apart[0].name]
    count = sum(not _near(x, y) for x, y in zip(theirs.rows, mine.rows, strict=False))
    if count == len(theirs.rows):
        factor = _factor(theirs.rows, mine.rows)
        if factor is not None:
            return f"`{theirs.name}` is multiplied by {factor:.6g}"
    return f"`{theirs.name}` differs in {count} of {len(theirs.rows)} samples"


def _factor(a: Sequence[float], b: Sequence[float]) -> float | None:
    """Return the number that the original's rows were multiplied with, if there is one."""
    if not a or not a[0] or len(a) < 2:
        return None
    factor = b[0] / a[0]
    return factor if all(_near(x * factor, y) for x, y in zip(a, b, strict=False)) else None


def _alike(a: Sequence[float], b: Sequence[float]) -> bool:
    return len(a) == len(b) and all(_near(x, y) for x, y in zip(a, b, strict=True))


def _near(a: float, b: float) -> bool:
    if math.isnan(a) or math.isnan(b):
        return math.isnan(a) and math.isnan(b)
    return a == b or abs(a - b) <= _ALIKE * max(abs(a), abs(b), 1e-3)
