"""What the reader is told of a recording that doesn't fit the script, and what is refused before it trains."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from xla_migrate.verify.experiments import recorded
from xla_migrate.verify.experiments.migration import ProjectMigration
from xla_migrate.verify.experiments.recorded import NotComparable, compared
from xla_migrate.verify.experiments.recorded_notes import digest, notes
from xla_migrate.verify.experiments.request import Request
from xla_migrate.verify.recordings.recording import CUDA, Recording, RecordingFacts

from ..traces import run

ORIGINAL = "import torch\nx = torch.ones(2).cuda()\n"
MIGRATED = "import torch\nfrom xla_migrate import runtime as xla\n"


def recording(file: Path, nproc: int = 1, **sources: str) -> Recording:
    about = RecordingFacts(
        kind=CUDA,
        script="train.py",
        args=(),
        command=(),
        recorded="2026-11-30",
        environment={},
        steps=6,
        seed=0,
        dropout="off",
        nproc=nproc,
        sources=sources,
        shim="",
        precisions=("float32",),
    )
    one = run()
    return Recording(about, {"float32": replace(one, traces=one.traces * nproc)}, file)


def told(script: Path, known: Recording) -> list[str]:
    one = run().traces[0]
    proposed = ProjectMigration()
    found = notes(one, one, Request(script, ()), known, proposed)
    return [note for note in found if "script" in note or "after the recording" in note]


def test_another_script_is_told(tmp_path: Path) -> None:
    script = tmp_path / "other.py"
    script.write_text(ORIGINAL)
    known = recording(tmp_path / "r.rec")
    assert told(script, known) == ["another script was recorded: train.py, here other.py"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (ORIGINAL, []),
        (f"{ORIGINAL}y = 1\n", ["the original was changed after the recording: train.py"]),
        (MIGRATED, []),  # the original itself isn't here
    ],
)
def test_an_original_that_changed_after_the_recording_is_told(
    tmp_path: Path, text: str, expected: list[str]
) -> None:
    script = tmp_path / "train.py"
    script.write_text(ORIGINAL)
    known = recording(tmp_path / "r.rec", **{"train.py": digest(script)})
    script.write_text(text)
    assert told(script, known) == expected


def test_another_number_of_processes_is_refused_before_anything_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorded, "run", None)
    script = tmp_path / "train.py"
    script.write_text(ORIGINAL)
    request = Request(script, (), nproc=4)
    with pytest.raises(NotComparable, match="2 processes were recorded and 4 train here"):
        compared(request, ProjectMigration(), recording(tmp_path / "r.rec", 2), lambda _: print)
