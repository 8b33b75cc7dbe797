"""Locate the first difference of two runs: modules first, then the optimizer's step."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import NamedTuple

from ..judge.judgement import Check, Judgement, Status
from ..judge.observed import ObservedRun
from ..judge.trace import OptimizerStep, Trace
from .first_wrong_module import WrongModule, first_wrong_module
from .first_wrong_operation import StepDetails, first_wrong_operation
from .optimizer_step import gradients, judge

_LOSS = 1e-3  # relative: a difference of two outputs may lose this many digits
_NO_ROUNDING = 0.1  # relative, of an input of the model


class Culprit(NamedTuple):
    """A module at fault, the step, and the process."""

    module: WrongModule
    event: int
    process: int


class Located(NamedTuple):
    """The verdicts on modules and optimizer steps.

    Attributes:
        verdicts: on modules, then on optimizer steps.
        culprit: the module at fault, if its operations may explain it.
        is_certain: True if no rounding can be behind it: other batches, other gradients, other options.
    """

    verdicts: list[Judgement]
    culprit: Culprit | None = None
    is_certain: bool = False

    def explained(self, more: str) -> list[Judgement]:
        """Return the verdicts; the one on modules has the sentence part, too."""
        first, *others = self.verdicts
        return [replace(first, detail="; ".join(filter(None, (first.detail, more)))), *others]


def located(reference: ObservedRun, target: ObservedRun) -> Located:
    """Return the verdicts on modules and optimizer steps, of the first process in which they part.

    Args:
        reference: the original's run, with details of its first steps.
        target: the migrated script's, with the same.
    """
    processes = len(reference.traces)
    found = Located([])
    for process, (a, b) in enumerate(zip(reference.traces, target.traces, strict=False)):
        found = _of_process(a, b, process, processes)
        if any(one.status is Status.FAILED for one in found.verdicts):
            return found
    return found


def operation(
    reference: ObservedRun, target: ObservedRun, culprit: Culprit, *, is_given: bool
) -> str:
    """Return what operations inside the module at fault show; see `first_wrong_operation`."""
    theirs, ours = (_step(run, culprit) for run in (reference, target))
    if theirs is None or ours is None:
        whose = "the original's" if theirs is None else "the migrated script's"
        return f"{whose} operations in step {culprit.event + 1} are not known"
    return first_wrong_operation(theirs, ours, culprit.module, is_given=is_given)


def _step(run: ObservedRun, culprit: Culprit) -> StepDetails | None:
    details = run.traces[culprit.process].details
    modules = details.modules.get(culprit.event)
    operations = details.operations.get(culprit.event)
    return None if modules is None or operations is None else StepDetails(modules, operations)


def _of_process(a: Trace, b: Trace, process: int, processes: int) -> Located:
    calls = tensors = 0
    events = range(min(len(a.steps), len(b.steps)))
    for event in events:
        if a.steps[event].optimizer != b.steps[event].optimizer:
            break
        parameters = [p.name for p in a.parameters.get(a.steps[event].optimizer, [])]
        theirs, ours = a.details.updates.get(event), b.details.updates.get(event)
        x, y = a.details.modules.get(event), b.details.modules.get(event)
        if x is not None and y is not None:
            known = theirs is not None and ours is not None
            wrong = first_wrong_module(
                x,
                y,
                gradients(theirs, parameters) if known and theirs else None,
                gradients(ours, parameters) if known and ours else None,
            )
            loss = _loss(a.steps[event], b.steps[event])
            if loss and (wrong is None or not wrong.is_forward):
                where = b.steps[event].where
                return Located(_failed(event, loss, where, "the loss differs before it"))
            if wrong is not None:
                found = _failed(event, str(wrong), wrong.where, "a module differs before it")
                if wrong.name:
                    return Located(found, Culprit(wrong, event, process))
                is_other_input = wrong.is_forward and wrong.differ > _NO_ROUNDING
                return Located(found, is_certain=is_other_input)
            calls += len(x.calls)
        if theirs is not None and ours is not None:
            options = a.steps[event].options or [], b.steps[event].options or []
            detail, count = judge(theirs, ours, *options, parameters, processes)
            tensors += count
            if detail:
                where = b.steps[event].where
                detail = f"step {event + 1}: {detail}"
                modules = _agreeing(Check.MODULES, calls, "calls of modules")
                step = Judgement(Check.OPTIMIZER_STEP, Status.FAILED, detail, where)
                return Located([modules, step], is_certain=True)
    return Located(
        [
            _agreeing(Check.MODULES, calls, "calls of modules"),
            _agreeing(Check.OPTIMIZER_STEP, tensors, "updates of tensors, computed again,"),
        ]
    )


def _failed(event: int, detail: str, where: str, why: str) -> list[Judgement]:
    """The verdicts if the modules of a step do not agree: what it makes of them is not judged."""
    return [
        Judgement(Check.MODULES, Status.FAILED, f"step {event + 1}: {detail}", where),
        Judgement(Check.OPTIMIZER_STEP, Status.NOT_JUDGED, f"not judged: {why}"),
    ]


def _loss(theirs: OptimizerStep, ours: OptimizerStep) -> str:
    """Return a sentence if a loss differs, which no module's output explains; gradients differ because of it."""
    for one, other in zip(theirs.losses, ours.losses, strict=False):
        if not (math.isfinite(one) and math.isfinite(other)):
            continue
        if abs(one - other) > _LOSS * max(abs(one), abs(other), 1e-3):
            factor = f", {other / one:.6g} times as much" if one else ""
            return (
                f"all outputs of modules agree, and the loss is {one:.7g} in the original, {other:.7g} here{factor}: "
                "it is computed outside of them"
            )
    return ""


def _agreeing(name: Check, count: int, what: str) -> Judgement:
    if not count:
        return Judgement(name, Status.NOT_JUDGED, f"no {what.rstrip(',')} could be compared")
    return Judgement(name, Status.OK, f"{count} {what} agree in the first steps")
