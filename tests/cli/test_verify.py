"""`xla-migrate verify` on the command line; what it compares has tests of its own in tests/verify."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from .conftest import Runner

SCRIPT = """\
import sys
import torch
from torch import nn

model = nn.Linear(4, 2).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=float(sys.argv[1]))
while True:
    x = torch.randn(8, 4).cuda()
    loss = model(x).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "verify takes one script"),
        (["a.py", "b.py"], "verify takes one script"),
        (["gone.py"], "gone.py: no such script"),
        (["--epochs", "1", "a.py"], "verify has no option --epochs; the script's own go behind --"),
        (["a.py", "--steps"], "--steps needs a value"),
        (["a.py", "--steps", "few"], "--steps must be a number, not 'few'"),
        (["a.py", "--precision=half"], "--precision half: there is float32 and bfloat16"),
        (["bad.py"], "bad.py:1:7: XLA001 invalid syntax"),
    ],
)
def test_wrong_usage(run: Runner, here: Path, words: list[str], message: str) -> None:
    (here / "a.py").write_text("")
    (here / "bad.py").write_text("def f(:  # torch")
    result = run("verify", *words)
    assert (result.code, result.out) == (2, "")
    assert result.err.startswith(f"xla-migrate: {message}")


def test_help(run: Runner) -> None:
    assert run("verify", "--help").out.startswith("usage: xla-migrate verify SCRIPT [options] -- ")


@pytest.mark.e2e
def test_a_script_is_proven(run: Runner, here: Path) -> None:
    pytest.importorskip("torch_xla")
    (here / "train.py").write_text(SCRIPT)
    result = run("verify", "train.py", "--steps", "4", "--output-format=json", "--", "0.1")
    report = json.loads(result.out)
    assert result.code == 0, report["message"]
    assert report["proven"]
    assert len(report["steps"]) == 4
    assert (here / "train.py").read_text() == SCRIPT


@pytest.mark.e2e
def test_the_scripts_own_error_is_told_as_such(run: Runner, here: Path) -> None:
    (here / "train.py").write_text(SCRIPT)
    result = run("verify", "train.py", "--steps", "2", "--", "fast")
    assert result.code == 2
    assert "the original's own error:" in result.out
    assert "could not convert string to float" in result.out.splitlines()[-1]
