"""The requests of launch scripts, and their jobs, with the SDKs themselves: see `environments.sh`."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from xla_migrate.target.sagemaker.container import RequestError
from xla_migrate.target.sagemaker.rehearse import captured

HERE = Path(__file__).parent
pytestmark = pytest.mark.target


def python_of(version: int) -> str:
    python = os.environ.get(f"XLA_MIGRATE_SDK{version}", "")
    if not python:
        pytest.skip(f"no environment with SDK {version}: sh tests/target/sagemaker/environments.sh")
    return python


def plain(request: dict[str, object]) -> object:
    """The request without the time in its name."""
    return json.loads(re.sub(r"\bjob-\d[\d-]*\d", "job-TIME", json.dumps(request)))


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("hosts", [1, 2])
def test_requests_are_as_before(version: int, hosts: int, tmp_path: Path) -> None:
    launch = HERE / f"launch{version}.py"
    request = captured(python_of(version), str(tmp_path), str(launch), [str(hosts), "0"], 600)
    golden = HERE / "golden" / f"sdk{version}-hosts{hosts}.json"
    assert plain(request) == json.loads(golden.read_text())


def test_a_script_that_asks_for_nothing(tmp_path: Path) -> None:
    script = tmp_path / "launch.py"
    for text, said in (
        ("x = 1\n", "without asking"),
        ("1 / 0\n", "failed"),
        ("exit(5)\n", "code 5"),
    ):
        script.write_text(text)
        with pytest.raises(RequestError, match=said):
            captured(python_of(2), str(tmp_path), str(script), [], 600)


def rehearse(version: int, fail: int, out: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "xla_migrate", "sagemaker", "rehearse"]
    command += [str(HERE / f"launch{version}.py"), "--sdk-python", python_of(version)]
    command += ["--output", str(out), *words, "--", "1", str(fail)]
    return subprocess.run(command, capture_output=True, text=True, timeout=900)


@pytest.mark.e2e
@pytest.mark.parametrize("version", [2, 3])
def test_two_replicas_end_with_equal_weights(version: int, tmp_path: Path) -> None:
    done = rehearse(version, 0, tmp_path / "out")
    assert done.returncode == 0, done.stdout + done.stderr
    model = tmp_path / "out" / "container" / "opt" / "ml" / "model"
    first, second = (json.loads((model / f"weights-{rank}.json").read_text()) for rank in (0, 1))
    assert first == second
    assert first["replicas"] == 2
    assert "/opt/ml/model: weights-0.json, weights-1.json" in done.stdout


@pytest.mark.e2e
@pytest.mark.parametrize("version", [2, 3])
def test_a_job_that_fails_leaves_its_failure_and_its_exit_code(
    version: int, tmp_path: Path
) -> None:
    done = rehearse(version, 7, tmp_path / "out", "--private-root")
    assert done.returncode == 1  # torchrun's
    assert "the job failed: exit code 1" in done.stdout
    assert re.search(r"exitcode\s*: 7", done.stdout + done.stderr)
    failure = tmp_path / "out" / "container" / "opt" / "ml" / "output" / "failure"
    assert failure.read_text()
    assert "replaces /opt/ml" in done.stderr
