"""Running a script so that it gives its graphs: in its own process, in a copy of its project, on no device."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ...script_environment import QUIET, environment_of_one
from ...verify.experiments import workspace
from ...verify.experiments.process import end
from ...verify.judge.trace import Recompile
from ..kernels.report import LookUp, Missing
from ..kernels.targets import KernelTarget
from .plan import VARIABLE, Plan

_BOOT = Path(__file__).parent / "boot"
_POLL = 0.1
_NO_TORCH_XLA = (
    f"torch_xla is not installed in {sys.executable}: pip install 'torch==2.9.*' 'torch_xla==2.9.*'"
)


class TracingError(Exception):
    """The script gave no graphs, or not all: one line with the place and what to do."""


@dataclass
class Traced:
    """A graph that the script cut.

    Attributes:
        text: StableHLO.
        place: `file:line` that cuts it, in the migrated script.
        why: "step mark", "read" or "save".
        phases: what ran in it: "forward", "backward", "optimizer step", "evaluation".
        times: how often it was cut.
        donors: arguments whose memory results take over.
        beside: bytes that one device holds meanwhile and that are no argument.
        spmd: it is a program for all devices together.
    """

    text: str
    place: str
    why: str
    phases: list[str]
    times: int = 1
    donors: int = 0
    beside: int = 0
    spmd: bool = False


@dataclass
class Tracing:
    """The result of tracing a script.

    Attributes:
        graphs: in order of their first cut; equal texts are one.
        reads: place of each read that was answered by a made-up value -> the value.
        saves: places of checkpoints.
        steps: optimizer steps that were traced.
        left_out: batches that passes over a DataLoader left out.
        causes: why each graph is new, if that was asked for.
        unreached: places of branches that no step took -> the branch, if that was asked for.
        kernels: the operations that were looked up, if that was asked for.
        stopped: the script was ended because nothing new came.
        output: what it printed.
        problem: why it did not come to its end, or "".
    """

    graphs: list[Traced] = field(default_factory=list)
    reads: dict[str, str] = field(default_factory=dict)
    saves: list[str] = field(default_factory=list)
    steps: int = 0
    left_out: int = 0
    causes: list[Recompile] = field(default_factory=list)
    unreached: dict[str, str] = field(default_factory=dict)
    kernels: LookUp = field(default_factory=LookUp)
    stopped: bool = False
    output: str = ""
    problem: str = ""


def trace(
    script: Path,
    args: Sequence[str],
    folder: Path,
    *,
    replace: Mapping[str, str | bytes] | None = None,
    steps: int = 4,
    patience: int = 16,
    execute: bool = False,
    explain: bool = False,
    ops: KernelTarget | None = None,
    devices: int = 1,
    timeout: float | None = None,
    python: str = sys.executable,
    progress: Callable[[int, float], None] | None = None,
) -> Tracing:
    """The graphs of a script for XLA.

    Args:
        script: migrated, or with `replace` to be so.
        args: its command-line arguments.
        folder: a new folder for the copy and the records.
        replace: contents that take the place of the project's files, by path.
        steps: batches of each pass over a DataLoader; 0 for all.
        patience: optimizer steps without a new graph after which the script is stopped.
        execute: compile and run the graphs on the CPU, too, so that what the script reads is real.
        explain: find out why each graph differs from earlier ones.
        ops: the target whose kernels are looked up for each operation.
        devices: that a script for SPMD is to see.
        timeout: seconds after which it is ended.
        python: the interpreter, with torch_xla.
        progress: called with (graphs so far, seconds) a few times a second.

    Raises:
        TracingError: torch_xla is not installed, or the project cannot be copied.
    """
    if python == sys.executable and find_spec("torch_xla") is None:
        raise TracingError(_NO_TORCH_XLA)
    script = script.resolve()
    project = workspace.project_of(script, None)
    copy, records = folder / "project", folder / "records"
    workspace.mark(folder)
    records.mkdir(parents=True)
    try:
        workspace.copy(project, copy, replace)
    except (workspace.WorkspaceError, OSError) as error:
        raise TracingError(str(error)) from error
    folders = str(copy.resolve()), str(project), str(records.resolve())
    named = (ops.name, ops.listed) if ops else ()
    plan = Plan(*folders, steps, patience, execute, explain, *named)
    plan.save(folder / "plan.json")
    place = copy / script.relative_to(project)
    here = Path.cwd()
    inside = copy / (here.relative_to(project) if project in (here, *here.parents) else "")
    command = [python, *_program(place, copy), *args]
    environment = _environment(folder / "plan.json", place, devices)
    with (folder / "output.txt").open("wb") as output:
        process = subprocess.Popen(
            command,
            cwd=inside,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            late = _wait(process, records, timeout, progress)
        finally:
            end(process)
    out = read(records)
    out.output = (folder / "output.txt").read_text(encoding="utf-8", errors="replace")
    out.problem = _problem(out, records, process.returncode, timeout if late else None)
    return out


def _program(script: Path, root: Path) -> list[str]:
    """Return the arguments for Python: the script's path, or its module name if it uses relative imports."""
    source = script.read_text(encoding="utf-8", errors="replace")
    if not re.search(r"^\s*from\s+\.", source, re.MULTILINE) or script.parent == root:
        return [str(script)]
    return ["-m", ".".join(script.relative_to(root).with_suffix("").parts)]


def _environment(plan: Path, script: Path, devices: int) -> dict[str, str]:
    source = script.read_text(encoding="utf-8", errors="replace")
    env = {**QUIET, **os.environ, "PJRT_DEVICE": "CPU", VARIABLE: str(plan)}
    env["PYTHONPATH"] = os.pathsep.join(filter(None, [str(_BOOT), env.get("PYTHONPATH")]))
    env.pop("XLA_MIGRATE_BACKEND", None)
    env["CPU_NUM_DEVICES"] = str(devices)
    if re.search(r"LOCAL_RANK|init_process_group", source):
        env = {**environment_of_one(), **env}
    return env


def _wait(
    process: subprocess.Popen[bytes],
    records: Path,
    timeout: float | None,
    progress: Callable[[int, float], None] | None,
) -> bool:
    """Until the process ends; True when it ran out of time."""
    start = time.monotonic()
    while process.poll() is None:
        elapsed = time.monotonic() - start
        if timeout is not None and elapsed > timeout:
            return True
        if progress is not None:
            progress(len(list(records.glob("*.mlir"))), elapsed)
        time.sleep(_POLL)
    return False


def read(records: Path) -> Tracing:
    """Return the results that the processes of a tracing have recorded."""
    out = Tracing()
    by_text: dict[str, Traced] = {}
    # Hashes, with the clones that torch_xla returns, too. Graphs of one text may have several hashes.
    compiled: set[tuple[str, ...]] = set()
    for file in sorted(records.glob("events.*.jsonl")):
        numbered: dict[int, Traced] = {}
        causes: dict[int, int] = {}  # number of a graph -> its place in `out.causes`
        for line in file.read_text(encoding="utf-8").splitlines():
            event = json.loads(line)
            if event["kind"] == "graph":
                graph = numbered[event["number"]] = _graph(event, records, by_text)
                if (
                    program := (event.get("hash", graph.text), *event.get("clones", ()))
                ) not in compiled:
                    compiled.add(program)
                    causes[event["number"]] = len(out.causes)
                    out.causes.append(_cause(event))
            elif event["kind"] == "compiled":
                if (at := causes.get(event["number"])) is not None:
                    out.causes[at] = replace(out.causes[at], seconds=event["seconds"])
            elif event["kind"] == "again" and event["number"] in numbered:
                numbered[event["number"]].times += 1
            else:
                _take(out, event)
    out.graphs = list(by_text.values())
    return out


def _graph(event: dict[str, Any], records: Path, by_text: dict[str, Traced]) -> Traced:
    text = (records / event["file"]).read_text(encoding="utf-8")
    names = ("place", "why", "phases", "donors", "beside", "spmd")
    new = Traced(text, **{name: event[name] for name in names})
    known = by_text.setdefault(text, new)
    if known is not new:
        known.times += 1
        known.beside = max(known.beside, new.beside)
        known.phases = sorted({*known.phases, *new.phases})
    return known


def _cause(event: dict[str, Any]) -> Recompile:
    known = event.get("cause")
    return Recompile(event["steps"], **(known or {"where": event["place"], "cause": ""}))


def _take(out: Tracing, event: dict[str, Any]) -> None:
    kind = event["kind"]
    if kind == "read":
        out.reads.setdefault(event["place"], event["answer"])
    elif kind == "save" and event["place"] not in out.saves:
        out.saves.append(event["place"])
    elif kind == "error" and not out.problem:
        place = f"{event['place']}: " if event["place"] else ""
        message = (event["message"].splitlines() or [""])[0][:400]
        out.problem = f"{place}{event['type']}: {message}"
    elif kind == "kernel":
        out.kernels.missing.append(Missing(**{k: v for k, v in event.items() if k != "kind"}))
    elif kind == "looked up":
        out.kernels.operations |= {*event["operations"]}
        out.kernels.unknown |= {*event["unknown"]}
    elif kind == "unreached":
        out.unreached[event["place"]] = event["branch"]
    elif kind == "left out":
        out.left_out += max(event["batches"], 0)
    elif kind in ("end", "stopped"):
        out.steps = max(out.steps, event["steps"])
        out.stopped = out.stopped or kind == "stopped"


def _problem(out: Tracing, records: Path, code: int, timeout: float | None) -> str:
    if timeout is not None:
        return f"tracing took more than {timeout:g} s and was ended (--timeout)"
    if out.problem and code != 0:
        return out.problem
    if code < 0:
        return _aborted(records, code)
    last = next((line for line in reversed(out.output.splitlines()) if line.strip()), "")
    if code != 0:
        return f"the script exited with code {code}; its last line: {last}"
    return "" if out.graphs else "the script ended without using the device"


def _aborted(records: Path, code: int) -> str:
    for file in records.glob("crash.*.txt"):
        found = re.search(r'File "[^"]*/project/([^"]+)", line (\d+)', file.read_text())
        if found:
            return f"{found.group(1)}:{found.group(2)}: the process was aborted (signal {-code}): most likely this line needs a value that tracing does not have; --execute-on-cpu computes it"
    return f"the script was ended by signal {-code}"
