"""Recording the original into a file, and checking a migrated script against such a file."""

from __future__ import annotations

import platform
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Literal

from ...files.special import is_special, write_special
from ..judge.compare import Comparison, compare
from ..judge.failures import Failure
from ..judge.judgement import Check, Judgement, Status
from ..judge.observed import ObservedRun
from ..observe.plan import Precision, Suspect
from ..recordings import half_precision, ordered
from ..recordings.located import Culprit, located, operation
from ..recordings.recording import CUDA, STAND_IN, Recording, RecordingFacts, save, unpack_replay
from .hooks_at_fault import blame_hooks
from .migration import ProjectMigration
from .one_process import comparable
from .proof import CLOCK_RATE, DETAILS, Shower
from .recorded_notes import digest, notes
from .request import Request
from .run import run
from .workspace import mark, project_of

BATCHES = 8  # of each data loader
FLOAT32: Literal["float32"] = "float32"
AS_WRITTEN: Literal["as written"] = "as written"
BFLOAT16: Literal["bfloat16"] = "bfloat16"


@dataclass(frozen=True)
class Recorded:
    """The result of making a recording: its description and size, or the failure of a run."""

    about: RecordingFacts | None = None
    size: int = 0
    failure: Failure | None = None


def record(
    request: Request,
    file: Path,
    command: Sequence[str],
    shower: Shower,
    details: int = DETAILS,
) -> Recorded:
    """Run the original and write a recording.

    It runs in float32. A script that uses half precision also runs as written, and a script that uses float16 also in
    bfloat16, whose error matches the accelerator's half precision.

    Args:
        request: what to run; `precision` is not used.
        file: the recording.
        command: the words after `xla-migrate`.
        shower: shows the progress of each run.
        details: steps of which modules and updates are recorded; 0 makes a smaller file.
    """
    with tempfile.TemporaryDirectory(prefix="xla-migrate-", ignore_cleanup_errors=True) as folder:
        base = Path(request.keep).resolve() if request.keep else Path(folder)
        mark(base)
        runs: dict[str, tuple[ObservedRun, Path]] = {}
        stored = base / "stored" if request.with_weights else None
        waiting: list[Precision] = [FLOAT32]
        while waiting:
            precision = waiting.pop(0)
            place = base / precision.replace(" ", "-")
            store = stored if precision == FLOAT32 else None
            found = _run(request, place, precision, shower, details, store)
            if found.failure is not None:
                return Recorded(failure=found.failure)
            runs[precision] = (found, place / "records")
            if precision == FLOAT32 and any(trace.lowered for trace in found.traces):
                waiting.append(AS_WRITTEN)
            if precision == FLOAT32 and any(trace.float16 for trace in found.traces):
                waiting.append(BFLOAT16)
        about = _about(request, command, [one for one, _ in runs.values()], tuple(runs))
        size = _save(file, base, about, runs, stored)
    return Recorded(about, size)


def _save(
    file: Path,
    base: Path,
    about: RecordingFacts,
    runs: Mapping[str, tuple[ObservedRun, Path]],
    stored: Path | None,
) -> int:
    """Write the recording and return its size. A device or a pipe is written to, and never replaced."""
    place = base / "recording.zip" if is_special(str(file)) else file
    save(place, about, runs, stored)
    if place is not file:
        write_special(str(file), place.read_bytes())
    return place.stat().st_size


def _without_hooks(
    request: Request, folder: Path, precision: Precision, timeout: float
) -> ObservedRun:
    return run(
        request.script,
        request.args,
        precision=precision,
        nproc=request.nproc,
        data_shim=request.data_shim,
        timeout=timeout,
        folder=folder.with_name("without-hooks"),
        watch=False,
    )


def _run(
    request: Request,
    folder: Path,
    precision: Precision,
    shower: Shower,
    details: int,
    store: Path | None,
) -> ObservedRun:
    show = shower(f"original, {precision}")
    found = run(
        request.script,
        request.args,
        side="reference",
        precision=precision,
        steps=request.steps,
        dropout=request.dropout,
        nproc=request.nproc,
        data_shim=request.data_shim,
        timeout=request.timeout,
        folder=folder,
        progress=show,
        batches=BATCHES,
        details=details,
        store=store,
    )
    show(None)
    blame_hooks(found, lambda most: _without_hooks(request, folder, precision, most))
    return found


def _about(
    request: Request, command: Sequence[str], runs: Sequence[ObservedRun], precisions: Sequence[str]
) -> RecordingFacts:
    known = {k: v for one in runs for trace in one.traces for k, v in trace.about.items()}
    stand_in = runs[0].redirected or "device" not in known
    names = {name for one in runs for trace in one.traces for name in trace.loaded}
    stored = [trace.stored for trace in runs[0].traces if trace.stored is not None]
    return RecordingFacts(
        kind=STAND_IN if stand_in else CUDA,
        script=str(request.script),
        args=request.args,
        command=tuple(command),
        recorded=datetime.now(timezone.utc).isoformat(timespec="seconds"),
        environment={**known, "platform": f"{platform.system()} {platform.machine()}"},
        steps=request.steps,
        seed=0,
        dropout=request.dropout,
        nproc=request.nproc,
        sources=_digests(project_of(request.script, None), sorted(names)),
        shim=digest(Path(request.data_shim)) if request.data_shim else "",
        precisions=tuple(precisions),
        replay=min((one["steps"] for one in stored if one["batches"]), default=0),
        models=max((one["models"] for one in stored), default=0),
    )


def _digests(project: Path, names: Sequence[str]) -> Mapping[str, str]:
    return {name: found for name in names if (found := digest(project / name))}


class NotComparable(Exception):
    """The recording and the request have nothing to compare; the message is one line."""


def compared(
    request: Request, proposed: ProjectMigration, recording: Recording, shower: Shower
) -> Comparison:
    """Run the migrated script, and compare it with a recorded run of the original.

    Raises:
        NotComparable: the recording has no run of this precision, or of as many processes, or nothing to replay.
    """
    proposed.complete(recording.about.sources)
    if request.replay:
        _refuse_replay(request, recording.about)
    steps = min(request.steps, recording.about.steps)
    if request.replay and recording.about.replay:
        steps = min(steps, recording.about.replay)
    references = [_first_steps(one, steps) for one in _references(request, recording)]
    if len(references[0].traces) == recording.about.nproc != request.nproc:
        ours = 1 if proposed.drives_all_devices(request.script) else request.nproc
        _refuse_other_processes(recording.about.nproc, ours)
    reference, fp32 = references[0], references[1] if len(references) > 1 else None
    with tempfile.TemporaryDirectory(prefix="xla-migrate-", ignore_cleanup_errors=True) as folder:
        base = Path(request.keep).resolve() if request.keep else Path(folder)
        mark(base)
        stored = base / "stored" if request.replay else None
        if stored is not None:
            unpack_replay(recording.file, stored)
        run_target = _RunTarget(replace(request, steps=steps), proposed, base, shower, stored)
        found = _judged(run_target, reference, fp32, request, recording)
        if ordered.is_to_locate(found):
            found.verdicts += _located(run_target, references, recording)
    return found


def _located(
    run_target: _RunTarget, references: Sequence[ObservedRun], recording: Recording
) -> list[Judgement]:
    """Run the migrated script once more in detail; in half precision twice, if float32 shows nothing."""
    again = run_target("migrated, in detail", FLOAT32, DETAILS)
    if again.failure is not None:
        why = f"could not run in detail: {again.failure.message}"
        return [Judgement(Check.MODULES, Status.NOT_JUDGED, why)]
    exact = recording.runs[FLOAT32]
    reference, target = comparable(exact, again)
    parted = located(reference, target)
    culprit, verdicts = parted.culprit, parted.verdicts
    if culprit is not None:
        if culprit.event not in reference.traces[culprit.process].details.operations:
            return verdicts  # a later step, compiled code or an older format
        return parted.explained(_operation(run_target, exact, culprit))
    if len(references) == 1 or any(v.status is Status.FAILED for v in verdicts):
        return verdicts
    lower = run_target("migrated in bfloat16, in detail", BFLOAT16, DETAILS)
    if lower.failure is not None:
        return verdicts
    return [half_precision.judge(exact, references[0], lower), *verdicts[1:]]


def _operation(run_target: _RunTarget, exact: ObservedRun, culprit: Culprit) -> str:
    """Run the migrated script once more, to look into the module; return what its operations show."""
    suspect = Suspect(*culprit.module.call, culprit.event, "", is_given=False)
    again = run_target("migrated, one module", FLOAT32, DETAILS, suspect=suspect)
    if again.failure is not None:
        return f"its operations are not known: one more run failed: {again.failure.message}"
    return operation(*comparable(exact, again), culprit, is_given=False)


def _judged(
    run_target: _RunTarget,
    reference: ObservedRun,
    fp32: ObservedRun | None,
    request: Request,
    recording: Recording,
) -> Comparison:
    target = run_target("migrated")
    if target.failure is None:
        _refuse_other_processes(len(reference.traces), len(target.traces))
        if fp32 is not None:
            fp32, _ = comparable(fp32, target)
        reference, target = comparable(reference, target)
        target.traces[0].notes += notes(
            reference.traces[0], target.traces[0], request, recording, run_target.proposed
        )

    def judged(repeated: tuple[ObservedRun, ObservedRun] | None = None) -> Comparison:
        return compare(
            reference,
            target,
            fp32=fp32,
            tolerance=request.tolerance,
            metric=request.metric,
            repeated=repeated,
        )

    found = judged()
    if found.divergence is None and any(v.name == Check.PRINTED for v in found.failed):
        again = run_target("migrated, other clock", clock_rate=CLOCK_RATE)
        if again.failure is None:
            found = judged((target, again))
    return ordered.in_order(found, request.tolerance)


def _first_steps(run: ObservedRun, count: int) -> ObservedRun:
    """Return the run as if it had been stopped after so many steps; what it printed is not known then."""
    if all(step.step <= count for trace in run.traces for step in trace.steps):
        return run
    traces = [
        replace(trace, steps=[s for s in trace.steps if s.step <= count], printed=None)
        for trace in run.traces
    ]
    return replace(run, traces=traces, output="", logs={})


def _references(request: Request, recording: Recording) -> list[ObservedRun]:
    """Return the recorded run to compare with; for the bf16 criterion, then the run in float32."""
    exact = recording.runs.get(FLOAT32)
    if request.precision == "bfloat16":
        lower = recording.runs.get(BFLOAT16) or recording.runs.get(AS_WRITTEN)
        if lower is None or exact is None:
            raise NotComparable(
                "the recorded script trains only in float32: --precision bfloat16 has no run to compare"
                " with"
            )
        return [lower, exact]
    if exact is None or not exact.traces:
        raise NotComparable("the recording holds no steps in float32")
    return [exact]


@dataclass(frozen=True)
class _RunTarget:
    """Runs the migrated script, as asked except for what is given."""

    request: Request
    proposed: ProjectMigration
    base: Path
    shower: Shower
    stored: Path | None = None

    def __call__(
        self,
        name: str,
        precision: Precision | None = None,
        details: int = 0,
        clock_rate: int = 1,
        suspect: Suspect | None = None,
    ) -> ObservedRun:
        request, show = self.request, self.shower(name)
        drives_all = self.proposed.drives_all_devices(request.script)
        found = run(
            request.script,
            request.args,
            side="target",
            replace=self.proposed.files,
            precision=precision or request.precision,
            steps=min(details, request.steps) if details else request.steps,
            dropout=request.dropout,
            nproc=1 if drives_all else request.nproc,
            devices=request.nproc,
            data_shim=request.data_shim,
            timeout=request.timeout,
            folder=self.base / name.replace(" ", "-"),
            progress=show,
            batches=BATCHES,
            details=details,
            clock_rate=clock_rate,
            suspect=suspect,
            replay=self.stored,
        )
        show(None)
        return found


def _refuse_replay(request: Request, about: RecordingFacts) -> None:
    if not about.models and not about.replay:
        raise NotComparable(
            "--replay: the recording holds no weights and no batches: record with --with-weights"
        )
    if about.nproc != request.nproc:
        raise NotComparable(
            f"--replay: {about.nproc} processes were recorded: run as many (--nproc {about.nproc})"
        )


def _refuse_other_processes(theirs: int, ours: int) -> None:
    if theirs != ours and ours != 1:
        raise NotComparable(
            f"{theirs} processes were recorded and {ours} train here: run as many (--nproc {theirs})"
        )


def as_recorded(request: Request, about: RecordingFacts, given: frozenset[str]) -> Request:
    """Return the request with the recording's settings in place of those that the user did not give.

    Args:
        request: of the user.
        about: of the recording.
        given: names of the request's fields that the user gave.
    """
    recorded = {
        "args": about.args,
        "steps": about.steps,
        "nproc": about.nproc,
        "dropout": about.dropout,
    }
    taken = {name: value for name, value in recorded.items() if name not in given}
    return replace(request, **taken)  # type: ignore[arg-type]
