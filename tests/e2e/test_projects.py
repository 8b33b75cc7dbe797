"""Programs of several modules, migrated as one, train what they trained."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from .. import warm

pytestmark = pytest.mark.e2e
pytest.importorskip("torch_xla")

PROJECTS = Path(__file__).parents[2] / "fixtures" / "projects"
LIMIT = 600  # seconds, against hanging


@pytest.mark.parametrize(
    ("name", "script", "options"),
    [
        ("hooks", "train.py", ["--steps", "3", "--", "--steps", "3"]),
        ("factory", "main.py", ["--steps", "3"]),
    ],
)
def test_trains_the_same(name: str, script: str, options: list[str], tmp_path: Path) -> None:
    """Checkpoints are saved on the way, by hooks that reach into the trainer."""
    project = tmp_path / name
    shutil.copytree(PROJECTS / name, project)
    command = [warm.choosing(), "-m", "xla_migrate", "verify", script, "--no-report", *options]
    env = {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "PJRT_DEVICE": "CPU",
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    done = subprocess.run(
        command,
        cwd=project,
        env=env,
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-5000:]
    assert "proven" in done.stdout
