"""The migrated fixtures train on XLA:CPU as their recordings say: from a GPU, or else from the CPU stand-in."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from xla_migrate.cli.migrated_project import migrated_project
from xla_migrate.verify.experiments.recorded import compared
from xla_migrate.verify.experiments.run import run
from xla_migrate.verify.judge.judgement import Check, Status
from xla_migrate.verify.recordings.recording import CUDA, STAND_IN, load

from .. import warm
from .fixtures import ALL, Fixture
from .golden import FOLDER, STEPS, recordings_of, request_of

RECORDED = [fixture for fixture in ALL if recordings_of(fixture)]
MOST_BYTES = 200_000


def test_every_recording_says_how_it_was_made_and_is_small() -> None:
    files = sorted(FOLDER.glob("*.rec"))
    assert len(files) >= len(RECORDED) > 0
    for file in files:
        about = load(file).about
        assert about.kind == (CUDA if file.name.endswith(".cuda.rec") else STAND_IN)
        assert about.steps == STEPS
        assert {"torch", "python", "platform"} <= set(about.environment)
        assert "--record" in about.command
        assert all(len(digest) == 64 for digest in about.sources.values())
        assert file.stat().st_size < MOST_BYTES, file.name


@pytest.mark.e2e
@pytest.mark.parametrize("fixture", RECORDED, ids=lambda fixture: str(fixture.name))
def test_the_migrated_fixture_trains_as_recorded(
    fixture: Fixture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torch_xla")
    if fixture.missing():
        pytest.skip(f"needs {', '.join(fixture.missing())}")
    monkeypatch.setitem(run.__kwdefaults__, "python", warm.choosing())
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("PJRT_DEVICE", "CPU")
    elsewhere = tmp_path / "elsewhere"
    shutil.copytree(fixture.folder, elsewhere, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.chdir(elsewhere)
    script = elsewhere / "train.py"
    request = request_of(fixture)
    request = type(request)(**{**vars(request), "script": script})
    recording = load(recordings_of(fixture)[0])
    found = compared(
        request, migrated_project(script, False), recording, lambda name: lambda progress: None
    )
    numeric = (Check.SAME_DATA, Check.SAME_WEIGHTS, Check.SAME_STEPS, Check.NUMBERS, Check.PRINTED)
    status = {v.name: (v.status, v.detail) for v in found.verdicts if v.name in numeric}
    assert found.could_run, str(found)
    assert all(s is not Status.FAILED for s, _ in status.values()), status
    assert status[Check.NUMBERS][0] is Status.OK
