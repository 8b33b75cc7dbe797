"""What is released: the wheel, the GitHub Action, the example workflow."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ACTION = ROOT / ".github" / "actions" / "check" / "action.yml"


@pytest.mark.e2e
def test_the_wheel_holds_every_module_and_nothing_else(tmp_path: Path) -> None:
    pytest.importorskip("hatchling")
    pytest.importorskip("build")
    words = ["-m", "build", "--wheel", "--no-isolation", "-o", str(tmp_path), str(ROOT)]
    subprocess.run([sys.executable, *words], check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        held = {name for name in archive.namelist() if ".dist-info/" not in name}
    wanted = {
        path.relative_to(root).as_posix()
        for root in (ROOT / "src", ROOT / "codemods")
        for path in root.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert held == wanted
    # From the archive itself, in a folder of its own, without the checkout and without torch.
    program = (
        "import sys; sys.path.insert(0, sys.argv.pop(1)); from xla_migrate.cli import main;"
        " code = main(sys.argv[1:]); assert 'torch' not in sys.modules; sys.exit(code)"
    )
    (tmp_path / "a.py").write_text("import torch\nx = torch.ones(2).cuda()\n")
    unpacked = tmp_path / "unpacked"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(unpacked)
    for words, code in ((["check", "a.py"], 1), (["explain", "XLA101"], 0), (["a.py"], 0)):
        done = subprocess.run(
            [sys.executable, "-c", program, str(unpacked), *words],
            cwd=tmp_path,
            env={k: v for k, v in os.environ.items() if k != "PYTHONPATH"},
            capture_output=True,
            text=True,
        )
        assert done.returncode == code, done.stderr


def steps(path: Path) -> list[dict[str, object]]:
    yaml = pytest.importorskip("yaml")
    content = yaml.safe_load(path.read_text())
    if "runs" in content:
        return list(content["runs"]["steps"])
    return [step for job in content["jobs"].values() for step in job["steps"]]


@pytest.mark.parametrize(("source", "code"), [(".cuda()", 1), ("", 0)])
def test_the_actions_check_runs(tmp_path: Path, source: str, code: int) -> None:
    (tmp_path / "a.py").write_text(f"import torch\nx = torch.ones(2){source}\n")
    bin_ = tmp_path / "bin"
    bin_.mkdir()
    (bin_ / "xla-migrate").write_text(f'#!/bin/sh\nexec {sys.executable} -m xla_migrate "$@"\n')
    (bin_ / "xla-migrate").chmod(0o755)
    (check,) = (step for step in steps(ACTION) if step.get("id") == "check")
    done = subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", str(check["run"])],
        cwd=tmp_path,
        env={
            **os.environ,
            "PATH": f"{bin_}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": os.pathsep.join(os.path.abspath(p) for p in sys.path),
            "RUNNER_TEMP": str(tmp_path),
            "GITHUB_OUTPUT": str(tmp_path / "output"),
            "PATHS": ".",
            "OPTIONS": "--no-cache --select XLA1",
            "FAIL_ON": "speed",
        },
        capture_output=True,
        text=True,
    )
    assert done.returncode == code, done.stderr
    assert done.stdout.startswith("::error ") == bool(code)
    sarif = (tmp_path / "output").read_text().strip().removeprefix("sarif=")
    log = json.loads(Path(sarif).read_text())
    assert len(log["runs"][0]["results"]) == code


def test_the_example_uses_the_action_and_the_hook() -> None:
    used = steps(ROOT / "docs" / "ci" / "workflow.yml")
    assert any("/.github/actions/check@" in str(step.get("uses")) for step in used)
    assert any("upload-sarif" in str(step.get("uses")) for step in used)
    hooks = (ROOT / ".pre-commit-hooks.yaml").read_text()
    run = next(str(step["run"]) for step in used if "pre-commit run" in str(step.get("run")))
    assert f"- id: {run.split()[-1]}\n" in hooks


def test_the_version_is_in_the_changelog_or_to_come() -> None:
    from xla_migrate import __version__

    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert "## Unreleased" in text or f"## {__version__}" in text
