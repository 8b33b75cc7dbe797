"""Running one side: the original or the migrated script, in its own process, in a copy of its project."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from . import compilations, failures, trace, workspace
from .failures import Failure
from .plan import VARIABLE, Plan
from .trace import Parameter, Step, Trace

_HERE = Path(__file__).parent
_BOOT = _HERE / "boot"
_POLL = 0.1

# A reference must not meet torch_xla (xla-facts 1.106); these libraries look for it by themselves.
_WITHOUT_XLA = {"USE_TORCH_XLA": "0", "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
_LAUNCHERS = {"ChildFailedError", "ProcessRaisedException", "ProcessExitedException"}
_QUIET = {"MPLBACKEND": "Agg", "WANDB_MODE": "offline", "PYTHONUNBUFFERED": "1"}


@dataclass(frozen=True)
class Progress:
    """How far a run is, for whoever shows it."""

    side: str
    steps: int
    of: int | None
    seconds: float


@dataclass
class Run:
    """What a run left behind.

    Attributes:
        side: "reference" or "target".
        script: the script as given.
        args: its arguments.
        precision: "as written", "float32" or "bfloat16".
        project: the copy that it ran in.
        traces: one per process that trained, by rank.
        output: what the script printed, both streams.
        failure: why it did not do what was asked, or None.
        seconds: wall-clock time of the whole run.
        warmup: steps at the start that performance verdicts leave out.
    """

    side: str
    script: Path
    args: list[str]
    precision: str
    project: Path
    traces: list[Trace] = field(default_factory=list)
    output: str = ""
    failure: Failure | None = None
    seconds: float = 0.0
    warmup: int = 3

    @property
    def redirected(self) -> bool:
        """Whether its CUDA calls went to the CPU."""
        return any(t.redirected for t in self.traces)

    @property
    def steps(self) -> list[Step]:
        """The steps of the first process."""
        return self.traces[0].steps if self.traces else []

    @property
    def losses(self) -> list[float | None]:
        """The loss of each step of the first process."""
        return [step.loss for step in self.steps]

    def parameters(self, optimizer: int = 0) -> list[Parameter]:
        """What an optimizer steps on."""
        return self.traces[0].parameters.get(optimizer, []) if self.traces else []


def run(
    script: str | Path,
    args: Sequence[str] = (),
    *,
    side: str = "reference",
    steps: int | None = 20,
    warmup: int = 3,
    dropout: str = "off",
    precision: str = "as written",
    seed: int = 0,
    nproc: int = 1,
    cwd: str | Path | None = None,
    replace: Mapping[str, str | bytes] | None = None,
    data_shim: str | Path | None = None,
    timeout: float | None = None,
    python: str = sys.executable,
    redirect: bool | None = None,
    keep: str | Path | None = None,
    follow: str | Path | None = None,
    arithmetic: str = "as it is",
    roughness: float = 0.0,
    shake: int = 0,
    folder: str | Path | None = None,
    env: Mapping[str, str] | None = None,
    progress: Callable[[Progress], None] | None = None,
    explain: bool = False,
    watch: bool = True,
) -> Run:
    """Run a training script under observation; its files are not changed.

    Args:
        script: the original, or the migrated script.
        args: its command-line arguments.
        side: "reference" (the original) or "target" (migrated: `PJRT_DEVICE` as set, or CPU).
        steps: optimizer steps after which it is stopped; None for the whole script.
        warmup: steps that performance verdicts will leave out.
        dropout: "off", or "same" for the same masks in both runs.
        precision: "as written", "float32" (autocast off) or "bfloat16" (float16 made bfloat16).
        seed: for random, numpy, torch and the device.
        nproc: processes; more than one start under torchrun, unless the script starts its own.
        cwd: where it runs; the project folder that is copied is this one if the script lies in it.
        replace: contents that take the place of the project's files (the migrated ones), by path.
        data_shim: a Python file executed in the run before training (a stand-in for data).
        timeout: seconds after which it is ended.
        python: the interpreter.
        redirect: send a reference's CUDA to the CPU; by default where there is no CUDA.
        keep: a folder that the weights after each step are written to.
        follow: a folder that another run kept them in: each step begins from those, and takes their
            file away (`compare(followed=...)`).
        arithmetic: "float64", to compute almost without rounding (`compare(exact=...)`).
        roughness: relative errors to make in every operation (likewise).
        shake: a seed to change the weights by a unit in bfloat16's last place after the first step, so
            that all later rounding is another (`compare(shaken=...)`).
        folder: where the copy and the records go (by default a new temporary folder).
        env: more environment variables.
        progress: called with how far it is, a few times a second.
        explain: find out what made a target compile again (slower; `compare(explained=...)`).
        watch: False runs the script alike but without looking at it, to measure what looking costs.

    Returns:
        The run; its `failure` says what went wrong, if anything did.
    """
    script = Path(script).resolve()
    project = workspace.project_of(script, Path(cwd) if cwd else None)
    base = Path(folder) if folder else Path(tempfile.mkdtemp(prefix="xla-migrate-"))
    copy, records = base / "project", base / "records"
    workspace.mark(base)
    records.mkdir(parents=True)
    result = Run(side, script, list(args), precision, copy, warmup=warmup)
    if not script.is_file() and str(script.relative_to(project)) not in (replace or {}):
        result.failure = Failure("file", f"{script}: no such script")
        return result
    try:
        workspace.copy(project, copy, replace)
    except (workspace.WorkspaceError, OSError) as error:
        result.failure = Failure("file", str(error))
        return result
    plan = Plan(
        side=side,
        project=str(copy.resolve()),
        original=str(project),
        records=str(records),
        steps=steps,
        seed=seed,
        dropout=dropout,
        precision=precision,
        redirect=redirect if side == "reference" else False,
        keep=_folder(keep),
        follow=_folder(follow),
        arithmetic=arithmetic,
        roughness=roughness,
        shake=shake,
        device_count=nproc,
        shim=str(Path(data_shim).resolve()) if data_shim else None,
        explain=explain,
        watch=watch,
    )
    plan.save(base / "plan.json")
    place = copy / script.relative_to(project)
    command = _command(python, place, copy, list(args), nproc)
    inside = copy / _relative(Path(cwd).resolve() if cwd else Path.cwd(), project)
    _execute(result, command, inside, _environment(plan, base, env), base, timeout, progress)
    return result


def _folder(place: str | Path | None) -> str | None:
    if place is None:
        return None
    Path(place).mkdir(parents=True, exist_ok=True)
    return str(Path(place).resolve())


def _relative(cwd: Path, project: Path) -> Path:
    return cwd.relative_to(project) if project == cwd or project in cwd.parents else Path()


def _command(python: str, script: Path, root: Path, args: list[str], nproc: int) -> list[str]:
    source = script.read_text(encoding="utf-8", errors="replace")
    program = _program(script, root, source)
    if nproc == 1 or starts_processes(source):
        return [python, *program, *args]
    port = _free_port()
    launcher = ["-m", "torch.distributed.run", f"--nproc_per_node={nproc}", f"--master_port={port}"]
    return [python, *launcher, *program, *args]


def _program(script: Path, root: Path, source: str) -> list[str]:
    """How Python is told to run it: as a module of its package, where it imports from that."""
    if not re.search(r"^\s*from\s+\.", source, re.MULTILINE) or script.parent == root:
        return [str(script)]
    return ["-m", ".".join(script.relative_to(root).with_suffix("").parts)]


def starts_processes(source: str) -> bool:
    """Whether the script starts its own processes (mp.spawn) rather than being started by torchrun."""
    return ".spawn(" in source or "start_processes(" in source


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _environment(plan: Plan, base: Path, more: Mapping[str, str] | None) -> dict[str, str]:
    env = {**_QUIET, **os.environ, **(more or {})}
    env[VARIABLE] = str(base / "plan.json")
    env["PYTHONPATH"] = os.pathsep.join(filter(None, [str(_BOOT), env.get("PYTHONPATH")]))
    env["PYTHONHASHSEED"] = "0"
    if plan.side == "target":
        env.setdefault("PJRT_DEVICE", "CPU")
        env["PT_XLA_DEBUG_LEVEL"] = "1"
        env["PT_XLA_DEBUG_FILE"] = str(base / "compilations.txt")  # each process has its own
        if plan.device_count > 1 and env["PJRT_DEVICE"] == "CPU":
            env["CPU_NUM_DEVICES"] = str(plan.device_count)  # how many a launch starts
        env["PT_XLA_DEBUG_MAX_FRAME"] = "24"
    else:
        env.update(_WITHOUT_XLA)
    return env


def _execute(
    result: Run,
    command: list[str],
    cwd: Path,
    env: dict[str, str],
    base: Path,
    timeout: float | None,
    progress: Callable[[Progress], None] | None,
) -> None:
    plan_steps = Plan.load(base / "plan.json").steps
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
            _end(process)
    result.seconds = time.monotonic() - start
    result.output = (base / "output.txt").read_text(encoding="utf-8", errors="replace")
    files = sorted((base / "records").glob("rank*.jsonl"))
    result.traces = sorted((trace.read(f) for f in files), key=lambda t: (not t.steps, t.rank))
    for one in result.traces:
        own = base / f"compilations.{one.process}.txt"
        one.compiled = compilations.read(own, str(result.project.resolve()))
    result.failure = _judge(result, process.returncode, timed_out, timeout, plan_steps)
    result.traces = [t for t in result.traces if t.steps]


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
    while process.poll() is None:
        elapsed = time.monotonic() - start
        if timeout is not None and elapsed > timeout:
            return True
        if progress is not None:
            progress(Progress(side, _count_steps(base / "records", tails), steps, elapsed))
        time.sleep(_POLL)
    for file, _ in tails.values():
        file.close()
    return False


def _count_steps(folder: Path, tails: dict[Path, tuple[IO[bytes], int]]) -> int:
    """Steps of the process that is furthest; each file is read only where it has grown."""
    for path in folder.glob("rank*.jsonl"):
        file, count = tails[path] if path in tails else (path.open("rb"), 0)
        tails[path] = (file, count + file.read().count(b'{"kind": "step"'))
    return max((count for _, count in tails.values()), default=0)


def _end(process: subprocess.Popen[bytes]) -> None:
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
    result: Run, code: int, timed_out: bool, timeout: float | None, steps: int | None
) -> Failure | None:
    done = len(result.traces[0].iterations()) if result.traces else 0
    if timed_out:
        return Failure(
            "timeout", f"{done} optimizer steps in {timeout:g} s: ended for lack of time"
        )
    errors = [t.error for t in result.traces if t.error]
    # Launchers raise, too, when a process of theirs has failed: its own error says more.
    own = [e for e in errors if e["type"] not in _LAUNCHERS]
    error = next(iter(own or errors), None)
    if error is not None and code != 0:
        return failures.of_error(error, str(result.project.resolve()), str(_HERE))
    return failures.of_exit(code, done, result.output)
