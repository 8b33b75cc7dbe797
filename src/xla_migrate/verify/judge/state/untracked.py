"""Changes by training outside of optimizer steps: averaged weights, running statistics, and the precision."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from ..judgement import Check, Judgement, Status
from ..observed import ObservedRun
from ..trace import Movement
from . import writes

_COUNT = "num_batches_tracked"
_SHARE = 0.1  # of the way that a tensor has moved: what is lost or doubled is all of it


def judge(
    reference: ObservedRun,
    target: ObservedRun,
    allowed: float,
    written: tuple[ObservedRun, ObservedRun] | None = None,
) -> list[Judgement]:
    """Verdicts against the target; one that is good if there is something to compare.

    Args:
        reference: the original's run.
        target: the migrated script's, of as many steps, that had the same course.
        allowed: the relative tolerance.
        written: both runs with `explain`: where the tensors are written to.
    """
    found = _state(reference, target, allowed)
    if found is not None and found[0] and written is not None:
        found = found[0], _with_line(found[1], writes.of_tensor(found[0], *written))
    state = [] if found is None else [found[1]]
    return [*state, *_precision(reference, target)]


def _with_line(verdict: Judgement, found: tuple[str, str] | None) -> Judgement:
    if found is None:
        return verdict
    return replace(verdict, detail=f"{verdict.detail}; {found[0]}", where=found[1])


def _state(
    reference: ObservedRun, target: ObservedRun, allowed: float
) -> tuple[str, Judgement] | None:
    """(the tensor that is off, or "", the verdict)."""
    name, compared = Check.OTHER_STATE, 0
    if counted := _counted(reference, target):
        return counted[0], Judgement(name, Status.FAILED, counted[1])
    for a, b in zip(reference.traces, target.traces, strict=False):
        known = [n for n in a.untracked if n in b.untracked]
        compared = max(compared, len(known))
        for tensor in known:
            is_off = _off(a.untracked[tensor], b.untracked[tensor], allowed)
            if is_off and not _follows_a_bias(tensor, a.untracked, b.untracked, allowed):
                told = _difference_text(tensor, a.untracked[tensor], b.untracked[tensor])
                return tensor, Judgement(name, Status.FAILED, told)
    if not compared:
        return None
    detail = f"{compared} tensor{'s' * (compared > 1)} that no optimizer updates changed alike"
    return "", Judgement(name, Status.OK, detail)


def _counted(reference: ObservedRun, target: ObservedRun) -> tuple[str, str] | None:
    """The count of a batch norm that has seen another number of batches, and that; its mean may hardly show it."""
    for a, b in zip(reference.traces, target.traces, strict=False):
        for tensor in (n for n in a.untracked if n.endswith(_COUNT) and n in b.untracked):
            x, y = a.untracked[tensor].norm, b.untracked[tensor].norm
            if abs(x - y) > 0.5:
                return tensor, (
                    f"{tensor.removesuffix(_COUNT)[:-1]} has normalized {x:.0f} batches in training mode in the"
                    f" original, {y:.0f} here: eval() or train() is missing, or at another place"
                )
    return None


def _off(a: Movement, b: Movement, allowed: float) -> bool:
    pairs = [(a.norm, b.norm), (a.projection, b.projection)]
    # A mask of infinities has no norm and no projection, on either side.
    known = [(x, y) for x, y in pairs if math.isfinite(x) or math.isfinite(y)]
    if not known or not math.isfinite(a.size):
        return False
    apart = max(abs(x - y) for x, y in known)
    way = max(max(abs(x), abs(y)) for x, y in known)
    return not (math.isfinite(apart) and apart <= _SHARE * way + 10 * allowed * a.size)


def _follows_a_bias(
    tensor: str, a: Mapping[str, Movement], b: Mapping[str, Movement], allowed: float
) -> bool:
    """Return True for the mean of a batch norm whose variance has moved alike.

    The gradient of a bias before a batch norm is rounding noise, which Adam turns into steps of
    the learning rate. The mean follows the bias, and the normalisation removes it.
    """
    variance = tensor.removesuffix("running_mean") + "running_var"
    if variance not in a or variance not in b or not tensor.endswith("running_mean"):
        return False
    is_updated = a[variance].norm != 0 and b[tensor].norm != 0
    return is_updated and not _off(a[variance], b[variance], allowed)


def _difference_text(tensor: str, a: Movement, b: Movement) -> str:
    return (
        f"{tensor}, which no optimizer updates: its norm has changed by {a.norm:.3g} in the original, by"
        f" {b.norm:.3g} here (a projection by {a.projection:.3g} and {b.projection:.3g}): an average or a"
        " statistic that is not updated, or updated in other places"
    )


def _precision(reference: ObservedRun, target: ObservedRun) -> list[Judgement]:
    if not reference.traces or not target.traces:
        return []
    asked = next((t.lowered for t in target.traces if t.lowered), "")
    if not asked or any(t.lowered for t in reference.traces):
        return []
    detail = "the migrated script uses half precision here, and the original nowhere does"
    return [Judgement(Check.PRECISION, Status.FAILED, detail, asked)]
