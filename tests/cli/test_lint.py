"""Migrated files have no lint that their originals do not have."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

FIXTURES = Path(__file__).parents[2] / "fixtures"
RULES = "B,E,F,I,W"
# `import torch` stays: it may be there for its effect. `vision/common.py` is imported with `*`.
KEPT = re.compile(r"F401 (\[\*\] )?`torch` |vision/common\.py.*F401 ")


def _violations(folder: Path) -> Counter[tuple[str, str]]:
    """Return how often each rule is broken in each file."""
    command = [sys.executable, "-m", "ruff", "check", "--isolated", "--no-cache", "--exit-zero"]
    options = ["--select", RULES, "--line-length", "100"]
    run = subprocess.run(
        [*command, *options, "--output-format", "concise", "."],
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    lines = [line for line in run.stdout.splitlines() if not KEPT.search(line)]
    rows = [line.split(":", 3) for line in lines if line.count(":") > 2]
    return Counter((path, rest.split()[0]) for path, _, _, rest in rows)


@pytest.mark.e2e
def test_the_fixtures_get_no_new_lint(tmp_path: Path) -> None:
    shutil.copytree(FIXTURES, tmp_path / "before")
    shutil.copytree(FIXTURES, tmp_path / "after")
    run = subprocess.run(
        [sys.executable, "-m", "xla_migrate", "--no-cache", str(tmp_path / "after")],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert run.returncode == 1, run.stderr  # some findings need a person
    for kept in (tmp_path / "after").rglob("*.orig"):
        kept.unlink()
    before, after = _violations(tmp_path / "before"), _violations(tmp_path / "after")
    assert sum(before.values()) > 10  # the linter has run
    assert not after - before


@pytest.mark.parametrize("length", [72, 120])
def test_generated_lines_follow_the_projects_formatter(tmp_path: Path, length: int) -> None:
    (tmp_path / "pyproject.toml").write_text(f"[tool.ruff]\nline-length = {length}\n")
    script = tmp_path / "train.py"
    script.write_text(
        "import torch\n\n\n"
        "def train(model, loader, optimizer):\n"
        "    for step, x in enumerate(loader):\n"
        "        loss = model(x.cuda()).mean()\n"
        "        optimizer.zero_grad()\n"
        "        loss.backward()\n"
        "        optimizer.step()\n"
        '        print(f"step {step}: loss {loss.item():.4f}", flush=True)\n'
    )
    subprocess.run(
        [sys.executable, "-m", "xla_migrate", "--no-cache", str(script)],
        capture_output=True,
        check=True,
        timeout=120,
    )
    lines = script.read_text().splitlines()
    assert max(map(len, lines)) <= length
    assert any(line.endswith("xla.later(") for line in lines) is (length == 72)
