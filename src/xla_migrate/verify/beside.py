"""What training does beside the optimizers' steps: averaged weights, running statistics; and in which precision."""

from __future__ import annotations

import math
from dataclasses import replace

from . import lines
from .run import Run
from .trace import Moved
from .verdict import Verdict

_COUNT = "num_batches_tracked"
_SHARE = 0.1  # of the way that a tensor has moved: what is lost or doubled is all of it


def judge(
    reference: Run, target: Run, allowed: float, written: tuple[Run, Run] | None = None
) -> list[Verdict]:
    """Verdicts against the target; one that is good where there is something to compare.

    Args:
        reference: the original's run.
        target: the migrated script's, of as many steps, that had the same course.
        allowed: the relative tolerance.
        written: both, with `explain`: where the tensors are written to.
    """
    found = _state(reference, target, allowed)
    if found is not None and found[0] and written is not None:
        found = found[0], _with_line(found[1], lines.of_tensor(found[0], *written))
    state = [] if found is None else [found[1]]
    return [*state, *_precision(reference, target)]


def _with_line(verdict: Verdict, found: tuple[str, str] | None) -> Verdict:
    if found is None:
        return verdict
    return replace(verdict, detail=f"{verdict.detail}; {found[0]}", where=found[1])


def _state(reference: Run, target: Run, allowed: float) -> tuple[str, Verdict] | None:
    """(the tensor that is off, or "", the verdict)."""
    name, compared = "other state", 0
    if counted := _counted(reference, target):
        return counted[0], Verdict(name, "failed", counted[1])
    for a, b in zip(reference.traces, target.traces, strict=False):
        known = [n for n in a.rest if n in b.rest]
        compared = max(compared, len(known))
        for tensor in known:
            if _off(a.rest[tensor], b.rest[tensor], allowed):
                told = _told(tensor, a.rest[tensor], b.rest[tensor])
                return tensor, Verdict(name, "failed", told)
    if not compared:
        return None
    detail = f"{compared} tensors that no optimizer steps on have moved alike"
    return "", Verdict(name, "ok", detail)


def _counted(reference: Run, target: Run) -> tuple[str, str] | None:
    """The count of a batch norm that has seen another number of batches, and that; its mean may hardly show it."""
    for a, b in zip(reference.traces, target.traces, strict=False):
        for tensor in (n for n in a.rest if n.endswith(_COUNT) and n in b.rest):
            x, y = a.rest[tensor].norm, b.rest[tensor].norm
            if abs(x - y) > 0.5:
                return tensor, (
                    f"{tensor.removesuffix(_COUNT)[:-1]} has normalized {x:.0f} batches in training mode in the"
                    f" original, {y:.0f} here: eval() or train() is missing, or at another place"
                )
    return None


def _off(a: Moved, b: Moved, allowed: float) -> bool:
    pairs = [(a.norm, b.norm), (a.projection, b.projection)]
    # A mask of infinities has no norm and no projection, on either side.
    known = [(x, y) for x, y in pairs if math.isfinite(x) or math.isfinite(y)]
    if not known or not math.isfinite(a.size):
        return False
    apart = max(abs(x - y) for x, y in known)
    way = max(max(abs(x), abs(y)) for x, y in known)
    return not (math.isfinite(apart) and apart <= _SHARE * way + 10 * allowed * a.size)


def _told(tensor: str, a: Moved, b: Moved) -> str:
    return (
        f"{tensor}, which no optimizer steps on: its norm has changed by {a.norm:.3g} in the original, by"
        f" {b.norm:.3g} here (a projection by {a.projection:.3g} and {b.projection:.3g}): an average or a"
        " statistic that is not updated, or updated in other places"
    )


def _precision(reference: Run, target: Run) -> list[Verdict]:
    if not reference.traces or not target.traces:
        return []
    asked = next((t.lowered for t in target.traces if t.lowered), "")
    if not asked or any(t.lowered for t in reference.traces):
        return []
    detail = "half precision is asked for here, and nowhere in the original"
    return [Verdict("precision", "failed", detail, asked)]
