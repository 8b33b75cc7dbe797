"""The hooks, run by the real pre-commit program on a real repository.

`language: python` would install this package from an index, which a test must not need. So the hooks are taken word by
word from the manifest, and only their language is `system`: what is installed here is what runs.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from .conftest import CLEAN, CUDA, ENVIRONMENT, XLA

MANIFEST = Path(__file__).parents[2] / ".pre-commit-hooks.yaml"
# Beside the interpreter first: the tests also run in environments that are not activated.
PROGRAM = shutil.which("pre-commit", path=f"{Path(sys.executable).parent}{os.pathsep}{os.defpath}")

needs_pre_commit = pytest.mark.skipif(PROGRAM is None, reason="pre-commit is not installed")


@pytest.fixture
def repository(here: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PRE_COMMIT_HOME", str(tmp_path / "pre-commit"))
    monkeypatch.setenv("PYTHONPATH", ENVIRONMENT["PYTHONPATH"])
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        monkeypatch.delenv(name)
    command = tmp_path / "bin" / "xla-migrate"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m xla_migrate "$@"\n')
    command.chmod(0o755)
    monkeypatch.setenv("PATH", f"{command.parent}{os.pathsep}{os.environ['PATH']}")
    git("init", "-q", "-b", "main", ".")
    git("config", "user.name", "x")
    git("config", "user.email", "x@example.org")
    return here


def git(*words: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["git", *words], capture_output=True, text=True, check=check)


def install(repository: Path, hook: str) -> None:
    hooks = MANIFEST.read_text()
    assert hooks.count("language: python\n") == 2
    local = re.sub(
        "^", "  ", hooks.replace("language: python\n", "language: system\n"), flags=re.MULTILINE
    )
    kept = [block for block in local.split("\n  \n") if re.search(rf"- id: {hook}\n", block)]
    config = "repos:\n- repo: local\n  hooks:\n" + "\n".join(kept)
    (repository / ".pre-commit-config.yaml").write_text(config)
    subprocess.run([str(PROGRAM), "install"], check=True, capture_output=True)


def commit(message: str) -> subprocess.CompletedProcess[str]:
    return git("commit", "-m", message, check=False)


@needs_pre_commit
def test_the_manifest_is_valid() -> None:
    subprocess.run([str(PROGRAM), "validate-manifest", MANIFEST], check=True)


@pytest.mark.e2e
@needs_pre_commit
def test_the_check_blocks_what_adds_cuda_and_passes_what_does_not(repository: Path) -> None:
    install(repository, "xla-migrate-check")
    (repository / "clean.py").write_text(CLEAN)
    git("add", ".")
    assert commit("clean").returncode == 0
    (repository / "train.py").write_text(CUDA)
    git("add", ".")
    blocked = commit("cuda")
    assert blocked.returncode == 1
    assert (
        "train.py:3:5: XLA101 [*] `.cuda()` fails on an XLA host: use `.to(xla.xla_device())`"
        in blocked.stderr
    )
    assert (repository / "train.py").read_text() == CUDA
    (repository / "train.py").write_text(XLA)
    git("add", ".")
    assert commit("xla").returncode == 0
    assert git("log", "--format=%s").stdout.split() == ["xla", "clean"]


@pytest.mark.e2e
@needs_pre_commit
def test_the_fixing_hook_fixes(repository: Path) -> None:
    install(repository, "xla-migrate")
    (repository / "train.py").write_text(CUDA)
    git("add", ".")
    first = commit("migrated")
    assert first.returncode == 1
    assert "files were modified by this hook" in first.stderr
    assert "1 of 1 finding migrated in 1 file." in first.stderr
    assert (repository / "train.py").read_text() == XLA
    assert (
        git("show", ":train.py").stdout == CUDA
    )  # the original is still staged: no copy is needed
    assert not (repository / "train.py.orig").exists()
    git("add", ".")
    assert commit("migrated").returncode == 0


@pytest.mark.e2e
@needs_pre_commit
def test_excluded_and_other_files_are_left_alone(repository: Path) -> None:
    install(repository, "xla-migrate-check")
    (repository / "pyproject.toml").write_text('[tool.xla-migrate]\nextend-exclude = ["legacy/"]\n')
    (repository / "legacy").mkdir()
    (repository / "legacy" / "train.py").write_text(CUDA)
    (repository / "notes.md").write_text("x.cuda()")
    git("add", ".")
    assert commit("legacy").returncode == 0
    (repository / "book.ipynb").write_text(
        '{"cells": [{"cell_type": "code", "source": "import torch\\ntorch.ones(2).cuda()"}]}'
    )
    git("add", ".")
    assert "book.ipynb:cell 1:2:1: XLA101" in commit("book").stderr


@needs_pre_commit
def test_launch_files_are_checked(repository: Path) -> None:
    install(repository, "xla-migrate-check")
    (repository / "train.sh").write_text("pip install flash-attn\n")
    (repository / "README.md").write_text("pip install flash-attn\n")
    git("add", ".")
    blocked = commit("launch").stderr
    assert "train.sh:1:13: XLA953" in blocked
    assert "README" not in blocked
