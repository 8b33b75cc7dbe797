"""docs/start.py: the two commands of the README."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture
def start(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> ModuleType:
    """The script, with an empty folder as its checkout."""
    spec = importlib.util.spec_from_file_location("start", ROOT / "docs" / "start.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "ROOT", tmp_path)
    monkeypatch.setattr(module, "VENV", tmp_path / ".venv")
    monkeypatch.setattr(module, "PYTHON", tmp_path / ".venv" / "bin" / "python")
    return module


@pytest.fixture
def commands(start: ModuleType, monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The commands that the script would run."""
    found: list[list[str]] = []

    def record(command: list[str], **_: object) -> subprocess.CompletedProcess[bytes]:
        found.append(list(command))
        return subprocess.CompletedProcess(command, 0)

    monkeypatch.setattr(subprocess, "run", record)
    return found


@pytest.mark.parametrize("uv", [None, "/usr/bin/uv"])
def test_the_demo_sets_up_then_migrates_trains_and_proves(
    start: ModuleType,
    commands: list[list[str]],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    uv: str | None,
) -> None:
    monkeypatch.setattr(start.shutil, "which", lambda name: uv)
    monkeypatch.setattr(sys, "argv", ["start.py"])
    assert start.main() == 0
    venv, install, migrate, train, prove = commands
    assert venv[1:3] == ["-m", "venv"]
    assert install[-1] == ".[xla]"
    assert install[0] == (uv or str(start.PYTHON))
    assert "--quiet" not in install
    assert (ROOT / migrate[1]).is_file()
    assert train[1] == migrate[3]
    assert prove[1:3] == ["verify", migrate[1]]
    printed = capsys.readouterr().out
    assert "GB" in printed
    assert "XLA compiles" in printed
    assert "xla-migrate --diff path/to/train.py" in printed.splitlines()[-1]


def test_an_environment_that_exists_is_used(
    start: ModuleType, commands: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    start.PYTHON.parent.mkdir(parents=True)
    start.PYTHON.touch()
    monkeypatch.setattr(sys, "argv", ["start.py", "test"])
    assert start.main() == 0
    install, test = commands
    assert install[-2:] == ["-e", ".[test]"]
    assert test[:3] == [str(start.PYTHON), "-m", "pytest"]


@pytest.mark.parametrize(("system", "machine"), [("Darwin", "arm64"), ("Linux", "aarch64")])
def test_a_system_without_packages_of_torch_xla_is_named_at_once(
    start: ModuleType,
    commands: list[list[str]],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    system: str,
    machine: str,
) -> None:
    monkeypatch.setattr(start.platform, "system", lambda: system)
    monkeypatch.setattr(start.platform, "machine", lambda: machine)
    monkeypatch.setattr(sys, "argv", ["start.py"])
    assert start.main() == 2
    assert commands == []
    assert f"no packages for {system} on {machine}" in capsys.readouterr().err


def test_a_failed_command_ends_the_script_with_its_name(
    start: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    start.PYTHON.parent.mkdir(parents=True)
    start.PYTHON.touch()

    def fail(command: list[str], **_: object) -> None:
        raise subprocess.CalledProcessError(3, command)

    monkeypatch.setattr(subprocess, "run", fail)
    monkeypatch.setattr(sys, "argv", ["start.py"])
    assert start.main() == 1
    assert "This command failed: " in capsys.readouterr().err
