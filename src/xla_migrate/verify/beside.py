"""What training does beside the optimizers' steps: averaged weights, running statistics; and in which precision."""

from __future__ import annotations

import math

from .run import Run
from .trace import Moved
from .verdict import Verdict

_COUNT = "num_batches_tracked"
_SHARE = 0.1  # of the way that a tensor has moved: what is lost or doubled is all of it


def judge(reference: Run, target: Run, allowed: float) -> list[Verdict]:
    """Verdicts against the target; one that is good where there is something to compare.

    Args:
        reference: the original's run.
        target: the migrated script's, of as many steps, that had the same course.
        allowed: the relative tolerance.
    """
    return [*_state(reference, target, allowed), *_precision(reference, target)]


def _state(reference: Run, target: Run, allowed: float) -> list[Verdict]:
    name, compared = "other state", 0
    if counted := _counted(reference, target):
        return [Verdict(name, "failed", counted)]
    for a, b in zip(reference.traces, target.traces, strict=False):
        known = [n for n in a.rest if n in b.rest]
        compared = max(compared, len(known))
        for tensor in known:
            if _off(a.rest[tensor], b.rest[tensor], allowed):
                return [Verdict(name, "failed", _told(tensor, a.rest[tensor], b.rest[tensor]))]
    if not compared:
        return []
    detail = f"{compared} tensors that no optimizer steps on have moved alike"
    return [Verdict(name, "ok", detail)]


def _counted(reference: Run, target: Run) -> str:
    """What is to be said where a batch norm has seen another number of batches; a mean may hardly show that."""
    for a, b in zip(reference.traces, target.traces, strict=False):
        for tensor in (n for n in a.rest if n.endswith(_COUNT) and n in b.rest):
            x, y = a.rest[tensor].norm, b.rest[tensor].norm
            if abs(x - y) > 0.5:
                return (
                    f"{tensor.removesuffix(_COUNT)[:-1]} has normalized {x:.0f} batches in training mode in the"
                    f" original, {y:.0f} here: eval() or train() is missing, or at another place"
                )
    return ""


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
