"""Running a script under a profile, in a copy of its project."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ...verify.experiments import workspace
from ...verify.judge.trace import Recompile
from .. import copies
from .child import PROJECT, SUMMARY, VARIABLE

_CHILD = "xla_migrate.target.profile.child"


@dataclass(frozen=True)
class Profiled:
    """The result of a run: its exit code, summaries by replica ("" for the only one), trace files.

    `graphs` is the first process's count in `steps` optimizer steps, if counting was requested.
    """

    code: int
    summaries: dict[str, str]
    traces: list[Path]
    graphs: Sequence[Recompile] = ()
    steps: int = 0


def profiled(
    script: Path,
    args: Sequence[str],
    folder: Path,
    replaced: Mapping[str, str | bytes],
    *,
    skip: int,
    steps: int,
    nproc: int = 1,
    stop: bool = True,
    op_lines: bool = False,
    count_graphs: bool = False,
) -> Profiled:
    """Run the script and profile its training steps from `skip` on.

    Args:
        script: in the user's tree, which is only read.
        args: of the script.
        folder: gets the traces, a summary per replica and, below `source`, the migrated files.
        replaced: the migrated files, by path in the project.
        skip: steps before the trace begins.
        steps: steps in the trace.
        nproc: processes; each profiles itself.
        stop: end the script then; else it goes on without the profile.
        count_graphs: record why each graph is new (slows tracing down).
        op_lines: let torch_xla note the line of each operation (slows tracing down).

    Raises:
        WorkspaceError: the project is too large to copy.
    """
    folder = folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    workspace.mark(folder)  # no part of the project that is copied
    before = set(_traces(folder))
    for old in folder.glob(f"**/{SUMMARY}"):
        old.unlink()
    for name, content in replaced.items():
        target = folder / "source" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content if isinstance(content, bytes) else content.encode())
    told = {"folder": str(folder), "skip": skip, "steps": steps, "stop": stop}
    own = {"XLA_IR_DEBUG": "1", "XLA_HLO_DEBUG": "1"} if op_lines else {}
    with tempfile.TemporaryDirectory(prefix="xla-migrate-profile-") as base:
        copy = copies.copied(script, args, replaced, Path(base) / "project", nproc)
        records = Path(base) / "records"
        records.mkdir()
        own[VARIABLE] = json.dumps({**told, "graphs": str(records) if count_graphs else ""})
        own[PROJECT] = str(copy.root)
        env = copies.attached(_CHILD, {**os.environ, **own})
        code = subprocess.call(copy.command, cwd=copy.cwd, env=env)
        graphs, taken = _graphs(records)
    summaries = {
        str(path.parent.relative_to(folder)).removeprefix("."): path.read_text(encoding="utf-8")
        for path in sorted(folder.glob(f"**/{SUMMARY}"))
    }
    return Profiled(code, summaries, sorted(set(_traces(folder)) - before), graphs, taken)


def _graphs(records: Path) -> tuple[list[Recompile], int]:
    """Return the graphs that the first process compiled, and its optimizer steps."""
    found: list[Recompile] = []
    steps = 0
    for file in sorted(records.glob("rank0.*.jsonl"))[:1]:
        for line in file.read_text(encoding="utf-8").splitlines():
            record = json.loads(line)
            if record.pop("kind") == "stepped":
                steps += 1
            else:
                found.append(Recompile(steps, **record))
    return found, steps


def _traces(folder: Path) -> list[Path]:
    return [*folder.glob("**/*.xplane.pb"), *folder.glob("**/*.trace.json*")]
