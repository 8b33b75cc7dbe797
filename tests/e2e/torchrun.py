"""Distributed scripts as their users start them: originals on redirected CUDA, migrated ones on XLA."""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from xla_migrate.script_environment import free_port
from xla_migrate.verify.experiments.command import BOOT
from xla_migrate.verify.observe.plan import VARIABLE, RunPlan

from .. import warm
from .fixtures import ROOT, Fixture, migrated, sources


@dataclass(frozen=True)
class Ended:
    """A run that is over."""

    code: int
    output: str
    folder: Path

    def losses(self) -> dict[str, list[float]]:
        """What each line said of a loss, by the text before it, in the order of printing.

        Two processes may print into one line: "... loss 1.2[RANK1] ... loss 1.3".
        """
        found: dict[str, list[float]] = {}
        line = r"(?m)(?:^|(?<=\d)(?=\[))(.*?\bloss )(\d+\.\d+)"
        for match in re.finditer(line, self.output, re.IGNORECASE):
            found.setdefault(match[1], []).append(float(match[2]))
        return found


def project(fixture: Fixture, folder: Path, *, target: bool) -> Path:
    """A copy of the fixture's folder with a small model, migrated or not; the training script in it."""
    folder.mkdir(parents=True)
    for name, content in (migrated if target else sources)(fixture, small=True).items():
        text = content if isinstance(content, bytes) else content.encode()
        (folder / name).write_bytes(text)
    return folder / fixture.script.name


def environment(folder: Path, *, target: bool, processes: int) -> dict[str, str]:
    """Of a user's shell: one with XLA:CPU, or, redirected, one with CUDA and NCCL."""
    env = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}
    path = [str(ROOT / "src")]
    if target:
        env |= {"PJRT_DEVICE": "CPU", "CPU_NUM_DEVICES": str(processes)}
    else:
        plan = RunPlan(
            side="reference",
            project=str(folder),
            records=str(folder),
            redirect=True,
            device_count=processes,
            watch=False,
        )
        plan.save(folder / "plan.json")
        env[VARIABLE] = str(folder / "plan.json")
        path.insert(0, str(BOOT))
    env["PYTHONPATH"] = os.pathsep.join(path)
    return env


def command(script: Path, args: Sequence[str], processes: int, *options: str) -> list[str]:
    """Under torchrun, unless the script starts its own processes."""
    if "spawn(" in script.read_text() or "xla.launch(" in script.read_text():
        return [warm.choosing(), str(script), *args, "--port", str(free_port())]
    launcher = [warm.choosing(), "-m", "torch.distributed.run", f"--nproc_per_node={processes}"]
    return [*launcher, f"--master_port={free_port()}", *options, str(script), *args]


def run(
    fixture: Fixture,
    folder: Path,
    mode: str = "float32",
    *,
    target: bool,
    more: Sequence[str] = (),
    options: Sequence[str] = (),
    watch: Callable[[Any, str], None] | None = None,
    limit: float = 240,
) -> Ended:
    """Run a fixture to its end, at most `limit` seconds.

    Args:
        fixture: which.
        folder: a new one, for the copy and what it writes.
        mode: "float32", "bf16" or "dropout".
        target: the migrated script, on XLA:CPU; otherwise the original.
        more: further arguments of the script.
        options: torchrun's.
        watch: called a few times a second with the process and what it has printed.
        limit: then it is ended, and its code is not 0.
    """
    script = project(fixture, folder / "project", target=target)
    out = folder / "out"
    out.mkdir()
    words = command(script, [*fixture.args(mode, out), *more], fixture.processes, *options)
    env = environment(script.parent, target=target, processes=fixture.processes)
    printed = folder / "output.txt"
    with printed.open("wb") as output:
        process = subprocess.Popen(
            words,
            cwd=script.parent,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        end = time.monotonic() + limit
        try:
            while process.poll() is None and time.monotonic() < end:
                if watch is not None:
                    watch(process, printed.read_text(errors="replace"))
                time.sleep(0.1)
        finally:
            _end(process)
    return Ended(process.returncode, printed.read_text(errors="replace"), out)


def _end(process: subprocess.Popen[bytes]) -> None:
    """It and what it started; torchrun's workers are in sessions of their own, and follow it."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
    process.wait()
