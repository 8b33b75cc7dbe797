"""The command on a terminal."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from xla_migrate.cli.migrate import progress

from .conftest import CUDA, ENVIRONMENT, Runner

TRAIN = """\
import torch
from xla_migrate import runtime as xla

model = torch.nn.Linear(4, 2).cuda()
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for x in xla.MpDeviceLoader(batches):
    loss = model(x).sum()
    loss.backward()
    xla.optimizer_step(optimizer)
    if loss.item() < 0.0:
        break
"""


def on_terminal(here: Path, *words: str, **env: str) -> str:
    ours, theirs = pty.openpty()
    environment = {k: v for k, v in ENVIRONMENT.items() if k not in ("NO_COLOR", "FORCE_COLOR")}
    process = subprocess.Popen(
        [sys.executable, "-m", "xla_migrate", *words],
        cwd=here,
        env={**environment, "TERM": "xterm", **env},
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    shown = b""
    try:
        while data := os.read(ours, 65536):
            shown += data
    except OSError:  # its other end is closed
        pass
    os.close(ours)
    process.wait()
    return shown.decode().replace("\r\n", "\n")


def plain(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;]*[mK]", "", text)


def test_source_line_fix_and_what_to_do_next(here: Path) -> None:
    (here / "train.py").write_text(TRAIN)
    shown = on_terminal(here, "check", "train.py")
    assert "\x1b[1;31merror[XLA101]" in shown
    text = plain(shown)
    assert " --> train.py:4:9\n  |\n4 | model = torch.nn.Linear(4, 2).cuda()\n" in text
    assert "  |         ^^^^^^^^^^^^^^^^^^^^^^^^^^^^\n  = safe fix:\n" in text
    assert "    + model = torch.nn.Linear(4, 2).to(xla.xla_device())\n" in text
    assert "warning (speed)[XLA503]" in text
    assert text.rstrip().splitlines()[-1].startswith("why: xla-migrate explain XLA")
    assert "\x1b" not in on_terminal(here, "check", "train.py", NO_COLOR="1")
    assert "\x1b" not in on_terminal(here, "check", "--color", "never", "train.py")
    text = plain(on_terminal(here, "check", "--output-format", "concise", "train.py"))
    assert text.startswith("train.py:4:9: XLA101 [*] ")
    text = plain(on_terminal(here, "train.py"))
    assert "prove it:             xla-migrate verify train.py -- ARGUMENTS" in text
    assert "why:                  xla-migrate explain XLA503\n" in text
    assert "on the training host: install xla-migrate from this checkout or wheel" in text
    assert "The remaining findings are only about speed: exit code 0" in " ".join(text.split())


def test_one_line_each_where_nobody_looks(run: Runner, here: Path) -> None:
    (here / "a.py").write_text(CUDA)
    assert run("check", "a.py").out.count("\n") == 2
    assert run("check", "--output-format", "full", "a.py").out.startswith("error[XLA101] ")
    assert "\x1b[" in run("check", "--output-format=full", "--color=always", "a.py").out


def test_a_notebooks_line(run: Runner, here: Path) -> None:
    import json

    cell = {"cell_type": "code", "source": CUDA, "outputs": [], "metadata": {}}
    book = {"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    (here / "a.ipynb").write_text(json.dumps(book))
    text = run("check", "--output-format", "full", "a.ipynb").out
    assert " --> a.ipynb:cell 1:3:5\n  |\n3 | x = torch.ones(2).cuda()\n" in text
    assert "    + x = torch.ones(2).to(xla.xla_device())\n" in text


def test_progress_tells_percentage_and_time(monkeypatch: pytest.MonkeyPatch) -> None:
    meter = progress.FileProgress([100, 300, 600])
    start = meter._start
    meter.step(100)
    assert meter.line(start + 1.0) == " 10 %  1 of 3 files"
    assert meter.line(start + 5.0) == " 10 %  1 of 3 files, 45 s left"
    meter.step(300)
    assert meter.line(start + 40.0) == " 40 %  2 of 3 files, 1 min left"


def test_progress_is_shown_steadily(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(progress, "_FIRST", 0.0)
    monkeypatch.setattr(progress, "_EVERY", 0.01)
    meter = progress.FileProgress([1] * 5)
    for _ in range(5):
        time.sleep(0.02)
        meter.step(1)
    meter.end()
    shown = capsys.readouterr().err
    assert [int(number) for number in re.findall(r"(\d+) %", shown)] == [20, 40, 60, 80, 100]
    assert shown.endswith("\r\x1b[K")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full here")
@pytest.mark.parametrize("form", ["text", "json", "full"])
def test_a_full_device(here: Path, form: str) -> None:
    (here / "a.py").write_text(CUDA)
    with open("/dev/full", "w") as full:
        answer = subprocess.run(
            [sys.executable, "-m", "xla_migrate", "check", "--output-format", form, "a.py"],
            cwd=here,
            env=ENVIRONMENT,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
        )
    assert answer.returncode == 2
    assert answer.stderr == ("xla-migrate: the report cannot be written: No space left on device\n")


def test_closed_streams(here: Path) -> None:
    (here / "a.py").write_text(CUDA)
    for closing in (">&-", "2>&-", ">&- 2>&-"):
        answer = subprocess.run(
            f"{sys.executable} -m xla_migrate check a.py {closing}",
            shell=True,
            cwd=here,
            env=ENVIRONMENT,
            capture_output=True,
        )
        assert answer.returncode == 1, closing


def test_added_lines_are_shown_with_the_finding_whose_fix_adds_them(here: Path) -> None:
    (here / "train.py").write_text(
        "import torch\nfrom transformers import set_seed\nSEED = 3\nset_seed(SEED)\nWIDTH = 4\n"
        "model = torch.nn.Linear(4, 2).cuda()\nloss = model(x).mean()\nloss.backward()\n"
        "optimizer.step()\n"
    )
    text = plain(on_terminal(here, "check", "train.py"))
    seeds = text[text.index("[XLA124]") :].split("\n\n")[0].splitlines()
    assert seeds[-2:] == [
        "  = safe fix:",
        "    + xla.manual_seed(SEED, device_only=True)",
    ]
