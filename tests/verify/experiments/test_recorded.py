"""A recording is written to devices and pipes, and never replaces them."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from xla_migrate.verify.experiments.recorded import _save
from xla_migrate.verify.recordings.recording import STAND_IN, RecordingFacts

from ..traces import run

ABOUT = RecordingFacts(
    kind=STAND_IN,
    script="train.py",
    args=(),
    command=(),
    recorded="2026-11-26T00:00:00+00:00",
    environment={},
    steps=1,
    seed=0,
    dropout="off",
    nproc=1,
)


def test_a_pipe_gets_the_recording(tmp_path: Path) -> None:
    pipe, base = tmp_path / "pipe", tmp_path / "base"
    base.mkdir()
    os.mkfifo(pipe)
    with subprocess.Popen(["cat", pipe], stdout=subprocess.PIPE) as reader:
        size = _save(pipe, base, ABOUT, {"float32": (run(), base)}, None)
        data = reader.communicate(timeout=30)[0]
    assert data.startswith(b"PK")
    assert len(data) == size
    assert pipe.is_fifo()
