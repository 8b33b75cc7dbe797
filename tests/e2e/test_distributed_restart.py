"""A job that loses a process at some step, and is started again by torchrun, trains as if nothing had been."""

from __future__ import annotations

import os
import re
import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from . import torchrun
from .fixtures import ALL

pytestmark = pytest.mark.e2e
pytest.importorskip("torch_xla")

FIXTURE = next(fixture for fixture in ALL if fixture.name == "ddp_accum")
STEPS = 10
ARGS = ["--max-steps", str(STEPS), "--save-every", "3"]


def workers(script: Path) -> list[int]:
    """The processes that torchrun's agent has started for the script."""
    found = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = file.read_text().split("\0")
        except OSError:
            continue  # it has ended meanwhile
        if str(script) in words and "torch.distributed.run" not in words:
            found.append(int(file.parent.name))
    return sorted(found)


class Killer:
    """Ends one process of a job, once, when the job has done so many steps."""

    def __init__(self, script: Path, step: int) -> None:
        self.script = script
        self.step = step
        self.killed = 0

    def __call__(self, process: Any, printed: str) -> None:
        if not self.killed and f"step {self.step} loss" in printed:
            found = workers(self.script)
            if found:
                self.killed = found[0]
                os.kill(self.killed, signal.SIGKILL)


def losses_by_step(printed: str) -> dict[int, list[str]]:
    """What was printed of each step, as often as it was done."""
    found: dict[int, list[str]] = {}
    for step, rest in re.findall(r"(?m)^step (\d+) (loss .*)$", printed):
        found.setdefault(int(step), []).append(rest)
    return found


def test_killed_and_restarted_it_has_the_losses_of_an_uninterrupted_run(tmp_path: Path) -> None:
    """With dropout: the random states are continued as well."""
    script = tmp_path / "killed" / "project" / FIXTURE.script.name
    killer = Killer(script, 4)  # between two checkpoints, unless it comes late
    options = ["--max-restarts=2"]
    with ThreadPoolExecutor(2) as pool:
        runs = [
            pool.submit(
                torchrun.run,
                FIXTURE,
                tmp_path / name,
                "dropout",
                target=True,
                more=ARGS,
                options=options,
                watch=watch,
                limit=400,
            )
            for name, watch in (("whole", None), ("killed", killer))
        ]
        whole, killed = (run.result() for run in runs)
    assert whole.code == 0, whole.output[-4000:]
    assert killed.code == 0, killed.output[-4000:]
    assert killer.killed
    expected, found = losses_by_step(whole.output), losses_by_step(killed.output)
    assert sorted(expected) == sorted(found) == list(range(STEPS))
    for step, (line,) in expected.items():
        assert set(found[step]) == {line}, f"killed after step {killer.step}"


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 and then the power went", b"no checkpoint"])
def test_a_broken_checkpoint_is_an_error_and_no_fresh_start(content: bytes, tmp_path: Path) -> None:
    """In one process: `latest` and `load` say which file, and what to do."""
    from xla_migrate import runtime as xla

    file = tmp_path / "latest.pt"
    file.write_bytes(content)
    for read in (lambda: xla.load(file, weights_only=False), lambda: xla.latest(tmp_path)):
        with pytest.raises(xla.CheckpointError, match=r"latest\.pt: .*Move it away"):
            read()
