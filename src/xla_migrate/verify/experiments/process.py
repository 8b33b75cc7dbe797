"""A run's process: started, watched until it ends or runs out of time, and ended with all that it started."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import IO

from ..judge import compilations, failures, trace
from ..judge.failures import Failure, Fault
from ..judge.observed import ObservedRun
from ..judge.record_format import ErrorRecord
from ..observe.plan import RunPlan

_HARNESS = Path(__file__).parent.parent
_POLL = 0.1
_TAIL = 20_000  # bytes of torch_xla's account: more than one analysis
_LOGS = (".csv", ".tsv", ".jsonl", ".ndjson")
_LARGEST_LOG = 4 << 20
_LAUNCHERS = {"ChildFailedError", "ProcessRaisedException", "ProcessExitedException"}


class Phase(str, Enum):
    """The phase of a run."""

    STARTING = "starting"  # imports, data, the model: no step yet
    COMPILING = "compiling"
    TRAINING = "training"
    ENDING = "ending"

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True)
class Progress:
    """The progress of a run, for display."""

    side: str
    steps: int
    of: int | None
    seconds: float
    phase: Phase = Phase.TRAINING
    in_phase: float = 0.0


def execute(
    result: ObservedRun,
    command: list[str],
    cwd: Path,
    env: dict[str, str],
    base: Path,
    timeout: float | None,
    progress: Callable[[Progress], None] | None,
) -> None:
    plan_steps = RunPlan.load(base / "plan.json").steps
    before = _log_files(result.project)
    start = time.monotonic()
    with (base / "output.txt").open("wb") as output:
        process = subprocess.Popen(
            command,
            cwd=cwd,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            timed_out = _wait(process, start, timeout, result.side, base, plan_steps, progress)
        finally:
            end(process)
    result.seconds = time.monotonic() - start
    result.output = (base / "output.txt").read_text(encoding="utf-8", errors="replace")
    result.logs = _logs(result.project, before)
    files = sorted((base / "records").glob("rank*.jsonl"))
    result.traces = sorted((trace.read(f) for f in files), key=lambda t: (not t.steps, t.rank))
    for one in result.traces:
        own = base / f"compilations.{one.process}.txt"
        one.compiled = compilations.read(own, str(result.project.resolve()))
    result.failure = _judge(result, process.returncode, timed_out, timeout, plan_steps)
    result.traces = [t for t in result.traces if t.steps]


def _log_files(project: Path) -> dict[str, int]:
    """(path in the project, time of the last change) of its log files."""
    found = {}
    for folder, folders, names in os.walk(project):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in names:
            path = os.path.join(folder, name)
            if name.endswith(_LOGS) and not os.path.islink(path):
                found[os.path.relpath(path, project)] = os.stat(path).st_mtime_ns
    return found


def _logs(project: Path, before: dict[str, int]) -> dict[str, str]:
    """Return the contents of the log files that the run wrote, by path; large ones are left out."""
    out = {}
    for name, changed in _log_files(project).items():
        path = project / name
        if changed != before.get(name) and path.stat().st_size <= _LARGEST_LOG:
            out[name] = path.read_text(encoding="utf-8", errors="replace")
    return out


def _wait(
    process: subprocess.Popen[bytes],
    start: float,
    timeout: float | None,
    side: str,
    base: Path,
    steps: int | None,
    progress: Callable[[Progress], None] | None,
) -> bool:
    """Until the process ends; True when it ran out of time."""
    tails: dict[Path, tuple[IO[bytes], int]] = {}
    phase, since = Phase.STARTING, start
    while process.poll() is None:
        elapsed = time.monotonic() - start
        if timeout is not None and elapsed > timeout:
            return True
        if progress is not None:
            done = _count_steps(base / "records", tails)
            now = _phase(base, done, steps)
            if now is not phase:
                phase, since = now, time.monotonic()
            in_phase = time.monotonic() - since
            progress(Progress(side, done, steps, elapsed, phase, in_phase))
        time.sleep(_POLL)
    for file, _ in tails.values():
        file.close()
    return False


def _phase(base: Path, done: int, steps: int | None) -> Phase:
    """By torch_xla's own account, which it writes before and after it compiles."""
    for path in base.glob("compilations.*.txt"):
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - _TAIL))
            tail = file.read()
        if tail.rfind(b"\nCompilation Analysis:") > tail.rfind(b"\nPost Compilation Analysis:"):
            return Phase.COMPILING
    if not done:
        return Phase.STARTING
    return Phase.ENDING if steps is not None and done >= steps else Phase.TRAINING


def _count_steps(folder: Path, tails: dict[Path, tuple[IO[bytes], int]]) -> int:
    """Count the steps of the furthest process; a file is read only after it has grown."""
    for path in folder.glob("rank*.jsonl"):
        file, count = tails[path] if path in tails else (path.open("rb"), 0)
        tails[path] = (file, count + file.read().count(b'{"kind": "step"'))
    return max((count for _, count in tails.values()), default=0)


def end(process: subprocess.Popen[bytes]) -> None:
    """End the process and everything that it started (its session)."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
        except ProcessLookupError:
            break
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            continue
    process.wait()


def _judge(
    result: ObservedRun, code: int, timed_out: bool, timeout: float | None, steps: int | None
) -> Failure | None:
    done = len(result.traces[0].iterations()) if result.traces else 0
    if timed_out:
        return Failure(
            Fault.TIMEOUT, f"{done} optimizer steps in {timeout:g} s: the time limit ended the run"
        )
    project, harness = str(result.project.resolve()), str(_HARNESS)
    errors = [t.error for t in result.traces if t.error and not _is_cut_off(t, result)]
    # Launchers raise, too, when a process of theirs has failed: its own error says more.
    own = [e for e in errors if e["type"] not in _LAUNCHERS]
    if not own and any(_is_cut_off(t, result) for t in result.traces):
        return None
    if own and code != 0:
        return failures.of_error(own[0], project, harness)
    for error in errors if code != 0 else []:
        worker = failures.printed_error(error["message"], project)
        worker = worker or failures.printed_error(result.output, project)
        return failures.of_error(worker or error, project, harness)
    return failures.of_exit(code, done, result.output, project, harness)


def _was_stopped(result: ObservedRun) -> bool:
    """True if all processes that take steps were ended by us; those that take none then miss them."""
    training = [t for t in result.traces if t.steps]
    return bool(training) and all(t.stopped for t in training)


def _is_cut_off(one: trace.Trace, result: ObservedRun) -> bool:
    """True of a process that takes no steps, and whose peers have gone: an actor, when the learner was stopped."""
    told = one.error is not None and _tells_of_a_peer(one.error)
    return told and not one.steps and _was_stopped(result)


def _tells_of_a_peer(error: ErrorRecord) -> bool:
    return bool(_GONE.search(error["message"]))


_GONE = re.compile(
    r"closed by peer|reset by peer|broken pipe|connection refused|failed to recv", re.IGNORECASE
)
