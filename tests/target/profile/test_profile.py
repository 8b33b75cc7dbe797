"""`xla-migrate profile` on a script with CUDA calls, and its trace in xprof."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests import warm

SCRIPT = """\
import sys
import torch
from torch import nn

def main():
    torch.manual_seed(0)
    model = nn.Linear(16, 4).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with open("out.txt", "w") as out:
        for step in range(int(sys.argv[1])):
            x = torch.randn(8, 16).cuda()
            optimizer.zero_grad()
            with torch.cuda.nvtx.range("forward"):
                loss = model(x).pow(2).mean()
            loss.backward()
            optimizer.step()
            if loss.item() > 1e9:  # a decision, so the value is read in every step
                break
    print("came to the end")

main()
"""


def _profile(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [warm.choosing(), "-m", "xla_migrate", "profile", "train.py", *words],
        cwd=folder,
        env={**os.environ, "PJRT_DEVICE": "CPU"},
        capture_output=True,
        text=True,
        timeout=300,
    )


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("project")
    (folder / "train.py").write_text(SCRIPT)
    done = _profile(folder, "--skip", "2", "--steps", "5", "--", "50")
    assert done.returncode == 0, done.stderr
    (folder / "told.txt").write_text(done.stdout)
    return folder


@pytest.mark.e2e
def test_the_summary_tells_kinds_and_lines(project: Path) -> None:
    told = (project / "told.txt").read_text()
    assert "start, 2 steps" in told
    assert "traced, 5 steps" in told
    assert "reading values" in told
    migrated = (project / "profile" / "source" / "train.py").read_text().splitlines()
    (line,) = (i for i, text in enumerate(migrated, 1) if "loss.item()" in text)
    assert f"train.py:{line}" in told
    assert "came to the end" not in told  # stopped after the steps


@pytest.mark.e2e
def test_the_user_s_tree_is_left_alone(project: Path) -> None:
    assert (project / "train.py").read_text() == SCRIPT
    assert not (project / "out.txt").exists()


@pytest.mark.e2e
def test_the_trace_has_a_marker_per_step_and_the_script_s_ranges(project: Path) -> None:
    (path,) = (project / "profile").glob("**/*.trace.json.gz")
    with gzip.open(path) as file:
        events = [e for e in json.load(file)["traceEvents"] if e.get("ph") == "X"]
    steps = [e["args"]["step_num"] for e in events if e["name"] == "step" and "args" in e]
    assert steps == ["0", "1", "2", "3", "4"]
    assert sum(e["name"] == "forward" for e in events) == 5
    assert any(e["name"].startswith("reading values: train.py:") for e in events)


@pytest.mark.e2e
@pytest.mark.target
def test_xprof_shows_the_steps(project: Path) -> None:
    convert: Any = pytest.importorskip(
        "xprof.convert.raw_to_tool_data", reason="xprof is not installed (pip install xprof)"
    )
    paths = [str(p) for p in (project / "profile").glob("**/*.xplane.pb")]
    data, _ = convert.xspace_to_tool_data(paths, "overview_page", {})
    tables = json.loads(data)
    (steps,) = (t for t in tables if any(c["id"] == "stepnum" for c in t.get("cols", [])))
    # Of more than five steps xprof leaves out the first and the last, which may be cut off.
    assert [row["c"][0]["v"] for row in steps["rows"]] == [f"step {n}" for n in range(5)]


@pytest.mark.e2e
def test_a_script_that_fails_or_is_too_short(project: Path) -> None:
    short = _profile(project, "--output", "short", "--skip", "9", "--", "3")
    assert short.returncode == 2
    assert "no trace" in short.stderr
    assert "start, 3 steps" in short.stdout
    failed = _profile(project, "--output", "failed", "--", "x")
    assert failed.returncode == 2
    assert "ended with exit code 1" in failed.stderr


def test_wrong_usage(tmp_path: Path) -> None:
    from xla_migrate.cli import main

    assert main(["profile", str(tmp_path / "none.py")]) == 2
    assert main(["profile", __file__, "--steps", "0"]) == 2
