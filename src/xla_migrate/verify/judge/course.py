"""Do both runs take the same steps: as many, with the same optimizers, after the same backward passes?"""

from __future__ import annotations

from typing import NamedTuple

from .judgement import Check, Judgement, Status
from .observed import ObservedRun
from .trace import OptimizerStep, Trace


def same_course(reference: ObservedRun, target: ObservedRun) -> Judgement:
    """Compare the steps of all processes; report a skipped or doubled step as such."""
    if len(reference.traces) != len(target.traces):
        detail = (
            f"{len(reference.traces)} processes trained in the original, {len(target.traces)} in the"
            " migrated script"
        )
        return Judgement(Check.SAME_STEPS, Status.FAILED, detail)
    for a, b in zip(reference.traces, target.traces, strict=True):
        found = _first_other_step(a, b)
        if found is not None:
            return Judgement(Check.SAME_STEPS, Status.FAILED, found.detail, found.where)
        if len(a.steps) != len(b.steps):
            detail = f"the original took {len(a.steps)} optimizer steps, the migrated script {len(b.steps)}"
            return Judgement(Check.SAME_STEPS, Status.FAILED, detail)
    detail = f"{len(reference.steps)} optimizer steps in both"
    return Judgement(Check.SAME_STEPS, Status.OK, detail)


def other_step_at(reference: ObservedRun, target: ObservedRun) -> int | None:
    """Return the event of the first step that only one of them takes, or None."""
    found = [_first_other_step(a, b) for a, b in zip(reference.traces, target.traces, strict=False)]
    return min((one.event for one in found if one is not None), default=None)


def without_left_passes(reference: ObservedRun, target: ObservedRun) -> None:
    """Take the backward passes away from the target's steps that the original has left out with their steps: a NaN's, where
    the migrated script goes through the turn all the same, and the device skips its step.
    """
    for a, b in zip(reference.traces, target.traces, strict=False):
        for x, y in zip(a.steps, b.steps, strict=False):
            if y.left and len(y.backwards) - y.left == len(x.backwards):
                y.backwards, y.losses, y.left = y.backwards[y.left :], y.losses[y.left :], 0


class _OtherStep(NamedTuple):
    event: int
    detail: str
    where: str


def _first_other_step(a: Trace, b: Trace) -> _OtherStep | None:
    """Return the first step that another optimizer takes, or that comes after other backward passes."""
    before: OptimizerStep | None = None
    for x, y in zip(a.steps, b.steps, strict=False):
        if x.optimizer != y.optimizer or x.skipped != y.skipped:
            return _OtherStep(x.event, _parted(x, y), y.where)
        if len(x.backwards) != len(y.backwards):
            return _OtherStep(x.event, *_other_passes(x, y, before))
        before = y
    return None


def _parted(x: OptimizerStep, y: OptimizerStep) -> str:
    if x.skipped and not y.skipped:
        return (
            f"step {x.step}: the original's loss scaler skipped it (float16 overflow), which bfloat16"
            " does not need; compare in float32, or the reference in bfloat16"
        )
    return f"step {x.event + 1} is optimizer {x.optimizer}'s in the original, {y.optimizer}'s here"


def _other_passes(
    x: OptimizerStep, y: OptimizerStep, before: OptimizerStep | None
) -> tuple[str, str]:
    """Return the meaning of a step after another number of backward passes: (detail, line)."""
    theirs, ours = len(x.backwards), len(y.backwards)
    if not ours:
        first = f", after {before.where}," if before is not None and before.where else ""
        detail = (
            f"step {y.step} is a second optimizer step for one backward pass{first} which the original"
            " does not take: the optimizer steps twice here, for example by optimizer_step() and"
            " optimizer.step()"
        )
        return detail, y.where
    if not theirs:
        return f"step {x.step}: the original steps twice for one backward pass, here once", y.where
    if ours > theirs:
        detail = (
            f"optimizer steps are skipped here: step {y.step} comes after {ours} backward passes, after"
            f" {theirs} in the original"
        )
        return detail, y.where
    detail = (
        f"more optimizer steps here than in the original: step {y.step} comes after {ours} backward"
        f" passes, after {theirs} in the original"
    )
    return detail, y.where
