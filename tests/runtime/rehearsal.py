"""Several processes that rehearse, for tests: each runs a script and reports what it found."""

from __future__ import annotations

import functools
import json
import os
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

from xla_migrate.script_environment import free_port

from .. import warm

SOURCE = Path(__file__).parents[2] / "src"
MARK = "REPORT "

# What a script begins with: `report(name, value)` tells the test.
PRELUDE = f"""
import json
def report(name, value):
    print("{MARK}" + json.dumps([name, value]), flush=True)
"""


def environment(rank: int = 0, count: int = 1, port: int = 0, **more: str) -> dict[str, str]:
    """That of one process among several, as torchrun makes it."""
    env = {**os.environ, "PYTHONPATH": str(SOURCE), "PJRT_DEVICE": "CPU", "OMP_NUM_THREADS": "1"}
    if count > 1:
        env |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(count)}
        env |= {"LOCAL_WORLD_SIZE": str(count)}
        env |= {"MASTER_ADDR": "localhost", "MASTER_PORT": str(port)}
    return {**env, **more}


@functools.cache
def start_device() -> None:
    """Start XLA's device in this process."""
    os.environ.setdefault("PJRT_DEVICE", "CPU")
    import torch
    import torch_xla

    (torch.ones(1, device=torch_xla.device()) + 1).tolist()


def run(script: str, count: int = 2, limit: float = 400, **env: str) -> list[dict[str, Any]]:
    """What each of ``count`` processes reported; an AssertionError with the output of one that fails.

    Processes that are not over after ``limit`` seconds are ended, and fail.
    """
    port = free_port()
    with tempfile.TemporaryDirectory() as folder:
        outputs = [Path(folder, f"{rank}.txt") for rank in range(count)]
        started = [
            subprocess.Popen(
                [warm.python(*warm.TORCH_XLA), "-c", PRELUDE + script],
                env=environment(rank, count, port, **env),
                stdout=outputs[rank].open("wb"),
                stderr=subprocess.STDOUT,
            )
            for rank in range(count)
        ]
        try:
            failed = _wait(started, limit)
        finally:
            for process in started:
                process.kill()
                process.wait()
        texts = [output.read_text() for output in outputs]
    assert failed is None, f"rank {failed}:\n{texts[failed][-4000:]}"
    return [_reports(text) for text in texts]


def _wait(started: list[subprocess.Popen[bytes]], limit: float) -> int | None:
    """Until all are over; the rank of the first that fails."""
    end = time.monotonic() + limit
    while time.monotonic() < end:
        codes = [process.poll() for process in started]
        failed = next((rank for rank, code in enumerate(codes) if code), None)
        if failed is not None or None not in codes:
            return failed
        time.sleep(0.05)
    return codes.index(None)


def _reports(output: str) -> dict[str, Any]:
    lines = [line.removeprefix(MARK) for line in output.splitlines() if line.startswith(MARK)]
    return dict(json.loads(line) for line in lines)
