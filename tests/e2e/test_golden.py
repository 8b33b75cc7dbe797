"""The migrated fixtures train on XLA:CPU as their recordings say: from a GPU, or else from the CPU stand-in."""

from __future__ import annotations

import ast
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from xla_migrate.cli.migrated_project import migrated_project
from xla_migrate.verify.experiments import recorded
from xla_migrate.verify.experiments.recorded import compared
from xla_migrate.verify.experiments.run import run
from xla_migrate.verify.judge.judgement import Check, Status
from xla_migrate.verify.judge.observed import ObservedRun
from xla_migrate.verify.recordings.recording import CUDA, STAND_IN, load

from .. import warm
from .fixtures import ALL, Fixture, migrated
from .golden import FOLDER, STEPS, recordings_of, request_of
from .observed import migrated_in_float32

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
    if fixture.processes == 1:
        share_the_run(fixture, tmp_path, monkeypatch)
    monkeypatch.setitem(run.__kwdefaults__, "python", warm.choosing())
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("PJRT_DEVICE", "CPU")
    elsewhere = tmp_path / "elsewhere"
    shutil.copytree(fixture.folder, elsewhere, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.chdir(elsewhere)
    script = elsewhere / "train.py"
    request = replace(request_of(fixture), script=script)
    recording = load(recordings_of(fixture)[0])
    project = migrated_project(script, False)
    found = compared(request, project, recording, lambda name: lambda progress: None)
    numeric = (Check.SAME_DATA, Check.SAME_WEIGHTS, Check.SAME_STEPS, Check.NUMBERS, Check.PRINTED)
    status = {v.name: (v.status, v.detail) for v in found.verdicts if v.name in numeric}
    assert found.could_run, str(found)
    assert all(s is not Status.FAILED for s, _ in status.values()), status
    assert status[Check.NUMBERS][0] is Status.OK


def share_the_run(fixture: Fixture, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let `compared` judge the first steps of the run that `test_training.py` also judges."""

    def first_steps(script: Path, args: tuple[str, ...], **options: Any) -> ObservedRun:
        assert (options["precision"], options["clock_rate"]) == ("float32", 1)
        for name, data in options["replace"].items():  # elsewhere, lines are shorter
            assert ast.dump(ast.parse(data)) == ast.dump(ast.parse(migrated(fixture)[name]))
        return recorded._first_steps(migrated_in_float32(fixture, place), options["steps"])

    monkeypatch.setattr(recorded, "run", first_steps)
