"""The runs of a verification: the original and the migrated script, and more where the first two call for it."""

from __future__ import annotations

import math
import os
import shutil
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from ..judge.compare import Comparison, compare
from ..judge.course import other_step_at
from ..judge.divergence import Quantity
from ..judge.failures import Failure, Fault
from ..judge.float64_check import Float64Runs, divergence
from ..judge.judgement import Check, Judgement, Status
from ..judge.observed import ObservedRun
from ..judge.tolerances import R_BY_CHANCE, relative
from ..observe.plan import Arithmetic, Precision, Suspect
from ..recordings import half_precision
from ..recordings.located import Culprit, Located, located, operation
from ..recordings.ordered import is_to_locate, without_consequences
from .hooks_at_fault import blame_hooks
from .migration import ProjectMigration
from .one_process import comparable
from .process import Progress
from .request import Request
from .run import run as observe
from .workspace import mark

DETAILS = 2  # steps of which modules and updates are recorded
BATCHES = 200  # of each data loader that are compared
CLOCK_RATE = 10_000  # milliseconds become seconds, even of a number without decimals
# For a run's name, what is called with how far it is, a few times a second; and with None at its end.
Shower = Callable[[str], Callable[[Progress | None], None]]


@dataclass(frozen=True)
class RunAgain:
    """Runs the original, or the migrated script, once more: as asked except for what is given (see `run`).

    Attributes:
        request: what is asked for.
        proposed: both sides.
        base: the folder for all runs.
        shower: shows the progress of a run.
        tell: receives the first result before the runs that look for reasons, and whether rounding may be one.
        untold: both until then.
    """

    request: Request
    proposed: ProjectMigration
    base: Path
    shower: Shower
    tell: Callable[[Comparison, bool], None]
    untold: list[tuple[Comparison, bool]] = field(default_factory=list)

    def __call__(
        self,
        name: str,
        *,
        migrated: bool = False,
        precision: Precision | None = None,
        explain: bool = False,
        keep: Path | None = None,
        follow: Path | None = None,
        arithmetic: Arithmetic = "as it is",
        roughness: float = 0.0,
        shake: int = 0,
        details: int = 0,
        watch: bool = True,
        timeout: float | None = None,
        clock_rate: int = 1,
        suspect: Suspect | None = None,
        steps: int | None = None,
    ) -> ObservedRun:
        request, proposed = self.request, self.proposed
        if self.untold:
            self.tell(*self.untold.pop())
        show = self.shower(name)
        drives_all = migrated and proposed.drives_all_devices(request.script)
        result = observe(
            request.script,
            request.args,
            side="target" if migrated else "reference",
            replace=proposed.files if migrated else proposed.originals,
            precision=precision or request.precision,
            folder=self.base / name.replace(" ", "-"),
            progress=show,
            steps=min(steps or details or request.steps, request.steps),
            dropout=request.dropout,
            nproc=1 if drives_all else request.nproc,
            devices=request.nproc,
            data_shim=request.data_shim,
            timeout=timeout or request.timeout,
            watch=watch,
            explain=explain,
            keep=keep,
            follow=follow,
            arithmetic=arithmetic,
            roughness=roughness,
            shake=shake,
            batches=BATCHES,
            inputs=bool(details),
            details=details,
            clock_rate=clock_rate,
            suspect=suspect,
        )
        show(None)
        return result


@dataclass
class MoreRuns:
    """Runs that the first two made necessary, in the form for `compare`."""

    explained: ObservedRun | None = None
    written: tuple[ObservedRun, ObservedRun] | None = None
    shaken: Sequence[tuple[ObservedRun, ObservedRun, ObservedRun]] = ()
    followed: tuple[ObservedRun, ObservedRun] | None = None
    exact: Float64Runs | None = None
    repeated: tuple[ObservedRun, ObservedRun] | None = None


_SHAKES = (1, 2)
_EXPLAINED = {Check.STATIC_SHAPES, Check.NO_FALLBACK}  # another run finds the lines
_ROUNDED = {Quantity.LOSS, Quantity.GRADIENT, Quantity.NO_GRADIENT, Quantity.WEIGHTS}
_ALIKE = 1e-3  # of gradients that differ by rounding
_TOO_FAR = 0.1  # of a step's value: no rounding in float32 does that within one step


def compared(
    request: Request,
    proposed: ProjectMigration,
    shower: Shower,
    tell: Callable[[Comparison, bool], None],
) -> Comparison:
    """Run both, and whatever else it takes to judge them.

    Args:
        request: what is asked for.
        proposed: both sides.
        shower: shows the progress of a run.
        tell: receives the result of the first two runs, if a check failed and more runs follow, and whether rounding
            may be the reason.
    """
    with tempfile.TemporaryDirectory(prefix="xla-migrate-", ignore_cleanup_errors=True) as folder:
        base = Path(request.keep).resolve() if request.keep else Path(folder)
        mark(base)
        run = RunAgain(request, proposed, base, shower, tell)
        comparison, parted = _compared(request, base, run)
        if _is_to_locate(comparison):
            comparison.verdicts += _located(run, parted or _in_detail(run))
        is_from_the_start = comparison.divergence is None or comparison.divergence.event >= 0
        return without_consequences(comparison) if is_from_the_start else comparison


def _is_to_locate(comparison: Comparison) -> bool:
    """Return True if the runs begin alike and part: in a module, or in the optimizer's step."""
    found = comparison.divergence
    begins_alike = found is None or found.event >= 0
    return comparison.could_run and begins_alike and is_to_locate(comparison)


class FirstSteps(NamedTuple):
    """Both scripts for a few steps in float32, with modules and updates; None if one of them fails."""

    reference: ObservedRun
    located: Located | None


def _in_detail(run: RunAgain) -> FirstSteps:
    reference = run("original in detail", precision="float32", details=DETAILS)
    target = run("migrated in detail", migrated=True, precision="float32", details=DETAILS)
    if reference.failure is not None or target.failure is not None:
        return FirstSteps(reference, None)
    return FirstSteps(reference, located(*comparable(reference, target)))


def _located(run: RunAgain, details: FirstSteps) -> list[Judgement]:
    """Return the verdicts on modules and optimizer steps, with what operations show of the module at fault."""
    reference, parted = details
    if parted is None:
        return []
    found = parted.verdicts
    if parted.culprit is not None:
        found = parted.explained(_operation(run, parted.culprit))
    if run.request.precision == "bfloat16" and not any(v.status is Status.FAILED for v in found):
        lower = run("original in bfloat16, in detail", details=DETAILS)
        ours = run("migrated in bfloat16, in detail", migrated=True, details=DETAILS)
        if lower.failure is None and ours.failure is None:
            found = [half_precision.judge(reference, lower, ours), *found[1:]]
    return [] if all(v.status is Status.NOT_JUDGED for v in found) else found


def _operation(run: RunAgain, culprit: Culprit) -> str:
    """Run the step once more, with the original's input for the module; return what its operations show."""
    folder = run.base / "suspect"
    folder.mkdir(parents=True, exist_ok=True)
    runs = [
        run(
            f"{'migrated' if is_given else 'original'}, one module",
            migrated=is_given,
            precision="float32",
            details=culprit.event + 1,
            suspect=Suspect(*culprit.module.call, culprit.event, str(folder.resolve()), is_given),
        )
        for is_given in (False, True)
    ]
    failure = next((one.failure for one in runs if one.failure is not None), None)
    if failure is not None:
        return f"its operations are not known: one more run failed: {failure.message}"
    return operation(*comparable(*runs), culprit, is_given=True)


def _compared(request: Request, base: Path, run: RunAgain) -> tuple[Comparison, FirstSteps | None]:
    """Return the comparison, and the details of the first steps if they were needed for it."""
    reference = run("original")
    not_run = ObservedRun("target", request.script, list(request.args), request.precision, base)
    not_run.failure = Failure(Fault.NOT_RUN, "the original could not be run")
    if reference.failure is not None:
        blame_hooks(
            reference, lambda most: run("original without hooks", watch=False, timeout=most)
        )
        return compare(reference, not_run), None
    run.proposed.complete(name for trace in reference.traces for name in trace.loaded)
    fp32 = None
    if request.precision == "bfloat16":
        fp32 = run("original in float32", precision="float32")
        if fp32.failure is not None:
            return compare(fp32, not_run), None
    target = run("migrated", migrated=True)
    more = MoreRuns()

    if reference.failure is None and target.failure is None:
        if fp32 is not None:
            fp32, _ = comparable(fp32, target)
        reference, target = comparable(reference, target)

    def judged() -> Comparison:
        return compare(
            reference,
            target,
            fp32=fp32,
            tolerance=request.tolerance,
            metric=request.metric,
            explained=more.explained,
            written=more.written,
            shaken=more.shaken,
            followed=more.followed,
            exact=more.exact,
            repeated=more.repeated,
            max_graphs=request.max_graphs,
        )

    as_many = request.nproc == 1 or not run.proposed.drives_all_devices(request.script)
    comparison = judged()
    if comparison.could_run and comparison.failed:
        run.untold.append((comparison, as_many and _is_to_follow(comparison, request)))
    is_counted = request.max_graphs is not None and comparison.could_run
    if is_counted or any(v.name in _EXPLAINED for v in comparison.failed):
        more.explained = run("migrated again, to find lines", migrated=True, explain=True)
    if any(v.name == Check.OTHER_STATE for v in comparison.failed):
        again = more.explained or run("migrated again, to find lines", migrated=True, explain=True)
        more.written = run("original again, to find lines", explain=True), again
    if as_many and _is_to_shake(comparison):
        more.shaken = [_shaken(seed, run) for seed in _SHAKES]
    details = _in_detail(run) if _parts_at_once(comparison, request) else None
    if details is not None:
        is_certain = details.located is not None and details.located.is_certain
        if as_many and not is_certain and _parted_at(comparison) == 0:
            more.exact = _first_step_exactly(request, run)
        if is_certain or more.exact is not None:
            return judged() if more != MoreRuns() else comparison, details
    if _is_to_repeat(comparison, request):
        again = run("original, other clock", clock_rate=CLOCK_RATE)
        if again.failure is None:
            more.repeated = reference, again
            comparison = judged()
    if as_many and _is_to_follow(comparison, request) and _fits(reference, base):
        kept = base / "weights"
        again = run("original again, weights kept", keep=kept)
        own = [_linked(kept, base / f"weights-{n}") for n in range(3)]
        following = run("migrated from these weights", migrated=True, follow=kept)
        if again.failure is None and following.failure is None:
            more.followed = again, following
            again_judged = judged()
            if _has_other_data(again_judged):
                return again_judged, details
            if _may_be_rounding(again_judged) or _prints_otherwise(again_judged):
                more.exact = _exactly(request, own, run)
    return judged() if more != MoreRuns() else comparison, details


def _shaken(seed: int, run: RunAgain) -> tuple[ObservedRun, ObservedRun, ObservedRun]:
    return (
        run(f"original in float32, weights changed {seed}", precision="float32", shake=seed),
        run(f"original, weights changed {seed}", shake=seed),
        run(f"migrated, weights changed {seed}", migrated=True, shake=seed),
    )


def _first_step_exactly(request: Request, run: RunAgain) -> Float64Runs | None:
    """The first step in float64, from the same initial weights; None if it does not differ."""
    reference = run("original in float64, first step", arithmetic="float64", steps=1)
    target = run("migrated in float64, first step", migrated=True, arithmetic="float64", steps=1)
    found = Float64Runs(reference, target)
    is_other = not found.failed and divergence(found, request.tolerance) is not None
    return found if is_other else None


def _exactly(request: Request, kept: list[Path], run: RunAgain) -> Float64Runs:
    """The steps in float64, and if they agree, in float32 with errors."""
    reference = run("original in float64", arithmetic="float64", follow=kept[0])
    target = run("migrated in float64", migrated=True, arithmetic="float64", follow=kept[1])
    found = Float64Runs(reference, target)
    if found.failed or divergence(found, request.tolerance) is not None:
        return found
    rough = run("original with errors", roughness=request.tolerance, follow=kept[2])
    return Float64Runs(reference, target, rough)


def _linked(kept: Path, place: Path) -> Path:
    """The same files once more: a run takes away what it has read."""
    place.mkdir()
    for file in kept.iterdir() if kept.is_dir() else ():
        try:
            os.link(file, place / file.name)
        except OSError:  # a file system without links
            shutil.copyfile(file, place / file.name)
    return place


def _is_to_shake(comparison: Comparison) -> bool:
    """True if chance may be why R exceeds its limit."""
    r = comparison.r
    return r is not None and r <= R_BY_CHANCE and Check.BF16 in {v.name for v in comparison.failed}


def _fits(reference: ObservedRun, place: Path) -> bool:
    """True if the disk holds the weights of all steps, twice."""
    size = sum(
        4 * math.prod(p.shape)
        for trace in reference.traces
        for step in trace.steps
        for p in trace.parameters[step.optimizer]
    )
    return 2 * size < shutil.disk_usage(place).free


def _is_to_follow(comparison: Comparison, request: Request) -> bool:
    """True if rounding that this training amplifies may be why the runs part."""
    if request.precision != "float32" or not comparison.could_run or _is_certain(comparison):
        return False
    found = comparison.divergence
    late = found is not None and found.step > 1 and found.quantity in _ROUNDED
    if request.amplification or late or _may_be_rounding(comparison):
        return True
    return found is None and _prints_otherwise(comparison)


def _is_certain(comparison: Comparison) -> bool:
    """True if no rounding explains the first difference: other steps, or other data before the first step."""
    found = comparison.divergence
    if found is None:
        return False
    other_step = other_step_at(comparison.reference, comparison.target)
    has_other_steps = other_step is not None and other_step <= found.event
    return has_other_steps or (found.event == 0 and _has_other_data(comparison))


def _parted_at(comparison: Comparison) -> int | None:
    return None if comparison.divergence is None else comparison.divergence.event


def _has_other_data(comparison: Comparison) -> bool:
    return any(v.name == Check.SAME_DATA for v in comparison.failed)


def _parts_at_once(comparison: Comparison, request: Request) -> bool:
    """True if the first steps, looked at in detail, may spare the runs that tell rounding from faults."""
    found = comparison.divergence
    return found is not None and 0 < found.step <= DETAILS and _is_to_follow(comparison, request)


def _is_to_repeat(comparison: Comparison, request: Request) -> bool:
    """True if what is printed differs, and that alone: it may be a time."""
    alike = comparison.divergence is None or _is_to_follow(comparison, request)
    return alike and _prints_otherwise(comparison) and not _has_other_data(comparison)


def _prints_otherwise(comparison: Comparison) -> bool:
    """True if printed numbers differ: a norm or an accuracy may amplify rounding where losses do not."""
    return any(v.name == Check.PRINTED for v in comparison.failed)


def _may_be_rounding(comparison: Comparison) -> bool:
    """True if a step that was taken from the same weights may differ by rounding alone.

    The terms of a loss may cancel, as those of a policy gradient. The gradients agree then.
    """
    found = comparison.divergence
    if found is None or found.quantity not in _ROUNDED:
        return False
    scale = abs(found.reference)
    row = next((r for r in comparison.rows if r.event == found.event), None)
    if found.quantity is Quantity.LOSS and row is not None and row.gradient_difference is not None:
        if row.gradient_difference <= _ALIKE:
            scale = max(scale, row.gradient_reference or 0.0)
    return relative(found.reference, found.target, scale) <= _TOO_FAR
