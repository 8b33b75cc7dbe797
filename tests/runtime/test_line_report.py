"""XLA_MIGRATE_REPORT=1: the table at the end of a run, also of one that fails, and on native devices."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from xla_migrate.runtime.compiling import line_report

from .. import warm
from ..e2e.fixtures import ROOT
from .native import building

SCRIPT = """\
import torch
from xla_migrate import runtime as xla

device = xla.xla_device()
model = torch.nn.Linear(4, 2).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(6):
    loss = model(torch.ones(3, 4).to(device)).sum()
    if step == 5:
        loss = loss + torch.ones(7, device=device).sum()
    loss.backward()
    xla.optimizer_step(optimizer)
    xla.mark_step()
    if step == 1:
        print(torch.bincount(torch.tensor([1, 2], device=device)).shape)
    loss.item()
END
"""


def _run(folder: Path, script: str, **env: str) -> subprocess.CompletedProcess[str]:
    (folder / "train.py").write_text(script)
    own = {"PJRT_DEVICE": "CPU", **env}
    return subprocess.run(
        [warm.choosing(), "train.py"],
        cwd=folder,
        env={**os.environ, **own},
        capture_output=True,
        text=True,
        timeout=300,
    )


def _rows(errors: str) -> list[list[str]]:
    lines = errors.partition("xla-migrate report, 6 optimizer steps:\n")[2].splitlines()
    return [line.split() for line in lines]


def test_nothing_is_installed_without_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XLA_MIGRATE_REPORT", raising=False)
    monkeypatch.setitem(sys.modules, "atexit", None)
    line_report.report_at_exit()
    assert line_report._state["pid"] == 0


@pytest.mark.e2e
@pytest.mark.parametrize(
    "end", ["", "raise RuntimeError('the script failed')", "import os; os._exit(0)"]
)
def test_lines_on_xla(tmp_path: Path, end: str) -> None:
    pytest.importorskip("torch_xla")
    done = _run(tmp_path, SCRIPT.replace("END", end), XLA_MIGRATE_REPORT="1")
    assert done.returncode == ("raise" in end), done.stderr
    assert ("the script failed" in done.stderr) == ("raise" in end)
    rows = _rows(done.stderr)
    assert ["6", "read", "from", "the", "device", "train.py:16", "item"] in rows, done.stderr
    assert ["1", "ran", "on", "the", "CPU", "train.py:15", "aten::bincount"] in rows
    late = [row for row in rows if row[1] == "compiled"]
    assert late == [["1", "compiled", "late", "train.py:13", "step", "mark"]]


def test_a_line_is_found_after_its_folder_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert line_report._line().partition(":")[0].endswith("test_line_report.py")


@pytest.mark.e2e
def test_a_run_without_the_variable_prints_nothing(tmp_path: Path) -> None:
    pytest.importorskip("torch_xla")
    done = _run(tmp_path, SCRIPT.replace("END", ""))
    assert done.returncode == 0
    assert "xla-migrate report" not in done.stderr


@pytest.mark.e2e
@pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")
def test_lines_on_a_native_device(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    cache = Path(request.config.cache.mkdir("standin"))  # type: ignore[union-attr]
    path = os.pathsep.join([str(building.site(sys.executable, cache)), str(ROOT / "src")])
    native = {"PYTHONPATH": path, "XLA_MIGRATE_BACKEND": "eager", "STANDIN_NAME": "tpu"}
    done = _run(tmp_path, SCRIPT.replace("END", ""), XLA_MIGRATE_REPORT="1", **native)
    assert done.returncode == 0, done.stderr
    rows = _rows(done.stderr)
    assert ["6", "ran", "on", "the", "CPU", "train.py:8", "aten::addmm"] in rows, done.stderr
    assert ["6", *"read from the device train.py:16 aten::_local_scalar_dense".split()] in rows
    assert ["6", *"ran on the CPU a backward pass aten::mm".split()] in rows


@pytest.mark.e2e
def test_a_checkpoint_is_read_at_its_own_line(tmp_path: Path) -> None:
    pytest.importorskip("torch_xla")
    script = SCRIPT.replace("END", 'xla.save(model.state_dict(), "model.pt")')
    rows = _rows(_run(tmp_path, script, XLA_MIGRATE_REPORT="1").stderr)
    assert [
        "1",
        "read",
        "from",
        "the",
        "device",
        "train.py:17",
        "tensors",
        "to",
        "the",
        "host",
    ] in rows
