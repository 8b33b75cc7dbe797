"""Comparing two runs: do they compute the same, and does the migrated one run as XLA should?"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from . import bf16, float64_check, graph_count, printed, same_data
from .course import same_course, without_left_passes
from .divergence import Divergence, Quantity, first_divergence
from .float64_check import Float64Runs
from .judgement import OF_SPEED, Check, Judgement, Status
from .observed import ObservedRun
from .performance import verdicts as performance
from .performance.step_times import StepFigures
from .state import untracked
from .tensors import TensorComparison, compare_tensors
from .tolerances import METRIC, relative
from .trace import OptimizerStep, Trace


@dataclass(frozen=True)
class StepComparison:
    """One step of both runs."""

    event: int
    optimizer: int
    step: int
    reference: float | None
    target: float | None
    difference: float | None
    gradient_reference: float | None
    gradient_target: float | None
    gradient_difference: float | None


@dataclass
class Comparison:
    """The outcome.

    Attributes:
        reference, target: the runs that were compared.
        verdicts: what was judged, numerics first.
        divergence: the first place where the numbers part, or None.
        rows: the steps of both, of the first process.
        followed_rows: the same of the runs that took each step from the original's weights, if any.
        tensors: of the judged runs of the first process, the worst first.
        r: the bf16 criterion's R, if requested.
        summary: where the target's steps spend their time, or None.
    """

    reference: ObservedRun
    target: ObservedRun
    verdicts: list[Judgement] = field(default_factory=list)
    divergence: Divergence | None = None
    rows: list[StepComparison] = field(default_factory=list)
    followed_rows: list[StepComparison] = field(default_factory=list)
    tensors: list[TensorComparison] = field(default_factory=list)
    r: float | None = None
    summary: StepFigures | None = None

    @property
    def could_run(self) -> bool:
        """True if both runs did what was asked."""
        return self.reference.failure is None and self.target.failure is None

    @property
    def proven(self) -> bool:
        """True if the migrated script trains the same, and as XLA should."""
        return self.could_run and bool(self.rows) and not self.failed

    @property
    def failed(self) -> list[Judgement]:
        """The verdicts against it."""
        return [v for v in self.verdicts if v.status is Status.FAILED]

    def __str__(self) -> str:
        for name, run in (("original", self.reference), ("migrated script", self.target)):
            if run.failure is not None:
                return f"could not run the {name}: {run.failure.message}"
        slow = "; ".join(f"{v.name}: {v.detail}" for v in self.failed if v.name in OF_SPEED)
        different = [v for v in self.failed if v.name not in OF_SPEED]
        if self.rows and not different:
            proven = f"proven: {len(self.rows)} steps alike"
            return f"{proven}; slow on XLA: {slow}" if slow else proven
        return "differs: " + "; ".join(f"{v.name}: {v.detail}" for v in different or self.failed)


def compare(
    reference: ObservedRun,
    target: ObservedRun,
    *,
    tolerance: float = 1e-5,
    metric: str | None = None,
    fp32: ObservedRun | None = None,
    hand: ObservedRun | None = None,
    shaken: Sequence[tuple[ObservedRun, ObservedRun, ObservedRun]] = (),
    followed: tuple[ObservedRun, ObservedRun] | None = None,
    exact: Float64Runs | None = None,
    explained: ObservedRun | None = None,
    written: tuple[ObservedRun, ObservedRun] | None = None,
    repeated: tuple[ObservedRun, ObservedRun] | None = None,
    judge_performance: bool = True,
    max_graphs: int | None = None,
) -> Comparison:
    """Judge a migrated script's run against the original's.

    Args:
        reference: the original's run.
        target: the migrated script's run, with the same arguments, steps, seed and dropout.
        tolerance: relative, of losses in float32.
        metric: a regular expression whose first group is a number that both print (an evaluation
            metric); all its values must agree to 0.1 %.
        fp32: the reference run in float32. Given, losses are judged by the bf16 criterion
            R = |target - fp32| / |reference - fp32| <= 1.2 (see `precision`) in place of `tolerance`.
        hand: a run of the same training hand-written for torch_xla, whose launches are the limit.
        shaken: the three runs of the bf16 criterion (float32, reference, target) with `shake`, once
            for each of several seeds: R is taken over all.
        followed: the reference once more with `keep`, and the target once more with `follow`: the
            numbers are judged by these two, so that rounding which training amplifies is not held
            against the target.
        exact: the same steps in float64, which tell rounding from faults (`float64_check`). Without `followed`, they
            are the first steps from the same initial weights, and have to differ.
        explained: the target's second run with `explain`: reports why it compiled again.
        written: second runs of both with `explain`: report where other state is written.
        repeated: the same script twice, the second time with `clock_rate`: the numbers that it then prints
            differently are not compared.
        judge_performance: whether compilations, graphs, launches, reads and fallbacks count.
        max_graphs: the largest number of graphs that is accepted, counted in `explained`.

    Returns:
        The comparison; its `proven` is the answer.
    """
    out = Comparison(reference, target)
    if not out.could_run:
        return out
    pairs = [(reference, target), *([followed] if followed is not None else [])]
    if exact is not None:
        pairs.append((exact.reference, exact.target))
    for pair in pairs:
        without_left_passes(*pair)
    out.rows = _rows(reference.traces[0], target.traces[0])
    judged = followed if followed is not None and all(r.traces for r in followed) else None
    out.tensors = compare_tensors(*((run.traces[0]) for run in judged or (reference, target)))
    out.verdicts.append(same_course(reference, target))
    if fp32 is not None:
        _judge_bf16(out, [(fp32, reference, target), *shaken])
    else:
        _judge_losses(out, tolerance, followed)
        if exact is not None and out.verdicts[-1].status is Status.FAILED:
            _judge_exactly(out, tolerance, followed or (reference, target), exact)
    out.verdicts[:0] = _judge_data(out, followed or (reference, target))
    if fp32 is None:
        out.verdicts += untracked.judge(*(followed or (reference, target)), tolerance, written)
        out.verdicts += _judge_printed(reference, target, tolerance, followed, exact, repeated)
    if metric is not None:
        out.verdicts.append(_judge_metric(metric, reference, target))
    if judge_performance:
        verdicts, out.summary = performance.judge(reference, target, hand, explained)
        out.verdicts += verdicts
    if max_graphs is not None and explained is not None:
        out.verdicts += [
            graph_count.judge(trace.recompiles, len(trace.steps), max_graphs)
            for trace in explained.traces[:1]
        ]
    return out


def _judge_data(out: Comparison, runs: tuple[ObservedRun, ObservedRun]) -> list[Judgement]:
    """Return the verdict on the data up to the first difference, once the numbers are judged."""
    until = None if out.divergence is None else out.divergence.event
    found = same_data.judge(*runs, until)
    numbers = [v for v in out.verdicts if v.name in (Check.NUMBERS, Check.BF16)]
    if found is None:
        return []
    if found.status is Status.FAILED and all(v.status is Status.OK for v in numbers):
        detail = f"{found.detail}; the losses agree nevertheless"
        return [replace(found, status=Status.NOT_JUDGED, detail=detail)]
    return [found]


def _pairs(reference: Trace, target: Trace) -> list[tuple[OptimizerStep, OptimizerStep]]:
    return list(zip(reference.steps, target.steps, strict=False))


def _rows(reference: Trace, target: Trace) -> list[StepComparison]:
    pairs = _pairs(reference, target)
    scale = max((abs(a.loss) for a, _ in pairs if a.loss is not None), default=0.0)
    steepest = max((a.gradient_norm or 0.0 for a, _ in pairs), default=0.0)
    return [
        StepComparison(
            a.event,
            a.optimizer,
            a.step,
            a.loss,
            b.loss,
            _difference(a.loss, b.loss, scale),
            a.gradient_norm,
            b.gradient_norm,
            _difference(a.gradient_norm, b.gradient_norm, steepest),
        )
        for a, b in pairs
    ]


def _difference(a: float | None, b: float | None, scale: float) -> float | None:
    return None if a is None or b is None else relative(a, b, scale)


def _judge_losses(
    out: Comparison, allowed: float, followed: tuple[ObservedRun, ObservedRun] | None
) -> None:
    """Losses, gradients and weights in float32; the first difference is located."""
    judged = followed or (out.reference, out.target)
    if followed is not None and followed[0].traces and followed[1].traces:
        out.followed_rows = _rows(followed[0].traces[0], followed[1].traces[0])
    found = [
        first_divergence(a, b, allowed, followed=followed is not None)
        for a, b in zip(judged[0].traces, judged[1].traces, strict=False)
    ]
    out.divergence = min((d for d in found if d is not None), key=lambda d: d.event, default=None)
    out.verdicts.append(_numbers_verdict(out, allowed, followed))


def _numbers_verdict(
    out: Comparison, allowed: float, followed: tuple[ObservedRun, ObservedRun] | None
) -> Judgement:
    name = Check.NUMBERS
    alone = _worst(out.rows)
    steepest = _worst_gradient(out.rows)
    if alone is None and steepest is None:
        return Judgement(name, Status.FAILED, "no loss was recorded in both runs")
    if followed is None or alone is None:
        if out.divergence is not None:
            return Judgement(name, Status.FAILED, str(out.divergence), out.divergence.where)
        if alone is None:
            detail = f"gradient norms within {steepest:.1e} relative; no losses: the script calls no loss's `backward`"
            return Judgement(name, Status.OK, detail)
        detail = f"losses within {alone:.1e} relative, allowed {allowed:.1e}"
        return Judgement(name, Status.OK, detail)
    course = same_course(*followed)
    if course.status is not Status.OK:
        return Judgement(name, Status.FAILED, f"from the original's weights, {course.detail}")
    if out.divergence is not None:
        detail = f"also from the original's own weights, {out.divergence}"
        return Judgement(name, Status.FAILED, detail, out.divergence.where)
    worst = _worst(out.followed_rows) or 0.0
    detail = (
        f"each step, taken from the original's weights: losses within {worst:.1e} relative, allowed"
        f" {allowed:.1e}; in independent runs they diverge by {alone:.1e}: this training amplifies rounding"
    )
    if alone <= allowed:
        detail = (
            detail.partition("; in independent runs")[0]
            + f"; in independent runs, within {alone:.1e}"
        )
    return Judgement(name, Status.OK, detail)


def _judge_exactly(
    out: Comparison, allowed: float, followed: tuple[ObservedRun, ObservedRun], exact: Float64Runs
) -> None:
    """Judge again in float64 what failed in float32."""
    name, before = Check.NUMBERS, out.verdicts.pop()
    found = float64_check.divergence(exact, allowed)
    course = same_course(exact.reference, exact.target)
    if exact.failed is not None:
        verdict = replace(before, detail=before.detail + exact.obstacle)
    elif course.status is not Status.OK:
        verdict = Judgement(name, Status.FAILED, f"in float64, {course.detail}", course.where)
    elif found is not None:
        out.divergence = found
        verdict = Judgement(name, Status.FAILED, f"also in float64, {found}", found.where)
    else:
        verdict = float64_check.rounding(exact, followed, allowed, _worst(out.rows) or 0.0)
        out.divergence = None if verdict.status is Status.OK else _of_rounding(out.divergence)
    out.verdicts.append(verdict)


def _of_rounding(found: Divergence | None) -> Divergence | None:
    """The same place, where float64 has shown that nothing but precision differs."""
    if found is None:
        return None
    hint = (
        "in float64 they agree: a lower precision, or an operation that loses digits on this device"
    )
    return replace(found, quantity=Quantity.ROUNDING, of=found.quantity.value, hint=hint)


def _worst(rows: list[StepComparison]) -> float | None:
    """The largest difference of losses; None if there is none to compare."""
    return max((r.difference for r in rows if r.difference is not None), default=None)


def _worst_gradient(rows: list[StepComparison]) -> float | None:
    """The largest difference of gradient norms in scripts without losses; None if a step has no gradients."""
    if any(
        r.reference is not None or r.target is not None or not r.gradient_reference for r in rows
    ):
        return None
    found = [r.gradient_difference for r in rows]
    return None if None in found else max((d for d in found if d is not None), default=None)


def _judge_bf16(
    out: Comparison, trainings: Sequence[tuple[ObservedRun, ObservedRun, ObservedRun]]
) -> None:
    """R over everything that was recorded, and over the losses alone."""
    found = bf16.ratios(*trainings)
    if found is None:
        out.verdicts.append(
            Judgement(Check.BF16, Status.FAILED, "no loss was recorded in all three runs")
        )
        return
    if found.as_precise:
        detail = (
            "the original is no less precise than float32: compare it without the bf16 criterion"
        )
        out.verdicts.append(
            Judgement(Check.BF16, Status.OK if found.alike else Status.FAILED, detail)
        )
        return
    out.r = found.r
    detail = (
        f"R = |target - fp32| / |bf16 - fp32| = {found.r:.3f} over {found.quantities} quantities,"
        f" allowed {found.limit:.2f}; {found.of_losses:.3f} over {found.count} losses alone,"
        f" allowed {found.limit_of_losses:.2f}"
    )
    if len(trainings) > 1:
        detail += f"; of {len(trainings)} trainings with other rounding"
    status: Status = Status.OK if found.within else Status.FAILED
    if found.within:
        detail += "; smaller differences are not distinguishable from bfloat16's rounding"
    out.verdicts.append(Judgement(Check.BF16, status, detail))


def _judge_printed(
    reference: ObservedRun,
    target: ObservedRun,
    allowed: float,
    followed: tuple[ObservedRun, ObservedRun] | None,
    exact: Float64Runs | None,
    repeated: tuple[ObservedRun, ObservedRun] | None,
) -> list[Judgement]:
    """Judge the free runs; if training amplifies rounding, the runs with the same steps, or in float64."""
    pairs = [(reference, target)]
    if followed is not None:
        pairs.append(followed)
    if followed is not None and exact is not None and exact.failed is None:
        pairs.append((exact.reference, exact.target))
    found: Judgement | None = None
    for pair in pairs:
        found = printed.judge(*pair, allowed, repeated)
        if found is None or found.status is Status.OK:
            break
    if found is None:
        return []
    if found.status is Status.FAILED and exact is not None:
        found = replace(found, detail=found.detail + exact.obstacle)
    return [found]


def _numbers(pattern: str, output: str) -> list[float]:
    found = []
    for match in re.finditer(pattern, output):
        text = match.group(1) if match.re.groups else match.group()
        try:
            found.append(float((text or "").strip().rstrip(",;%)")))
        except ValueError:
            raise ValueError(
                f"{text!r} is not a number: --metric's first group must match a number"
            ) from None
    return found


def _judge_metric(pattern: str, reference: ObservedRun, target: ObservedRun) -> Judgement:
    name = Check.METRIC
    try:
        a, b = (_numbers(pattern, run.output) for run in (reference, target))
    except ValueError as error:
        return Judgement(name, Status.FAILED, str(error))
    if not a:
        return Judgement(
            name, Status.FAILED, f"the original printed nothing that matches {pattern!r}"
        )
    if len(a) != len(b):
        detail = f"{len(a)} values in the original, {len(b)} in the migrated script"
        return Judgement(name, Status.FAILED, detail)
    worst, at = max((relative(x, y, abs(x)), i) for i, (x, y) in enumerate(zip(a, b, strict=True)))
    detail = (
        f"{len(a)} values within {worst:.2%}, allowed {METRIC:.1%}; the last: {a[-1]:g}, {b[-1]:g}"
    )
    if worst > METRIC:
        detail = f"value {at + 1}: {a[at]:g} in the original, {b[at]:g} here ({worst:.2%})"
        return Judgement(name, Status.FAILED, detail)
    return Judgement(name, Status.OK, detail)
