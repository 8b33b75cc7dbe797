"""One run does all that further runs would do."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from xla_codemods.analysis.projects.project import Modules, Project
from xla_codemods.analysis.script import Script
from xla_codemods.engine import check, migrate
from xla_codemods.source import Source

ROOT = Path(__file__).parents[2] / "fixtures"
SCRIPTS = sorted(
    path.relative_to(ROOT).as_posix()
    for path in [*ROOT.glob("train/*/*.py"), *ROOT.glob("traps/*.py")]
    if path.name != "hand_xla.py"
)
# The print's scale is a number only after the scaler has gone, so that the read can be moved only then.
SCALE = textwrap.dedent(
    """
    import torch

    def train(model, loader, optimizer):
        scaler = torch.cuda.amp.GradScaler()
        for x, y in loader:
            loss = model(x.cuda()).sub(y.cuda()).pow(2).mean()
            optimizer.zero_grad()
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            print(loss.item(), scaler.get_scale())
    """
).encode()


@pytest.mark.parametrize("script", SCRIPTS)
def test_a_second_run_changes_nothing(script: str) -> None:
    once = migrate((ROOT / script).read_bytes()).data
    assert migrate(once).data == once


def test_what_can_be_fixed_only_then_is_fixed_in_the_same_run() -> None:
    done = migrate(SCALE)
    assert b"xla.later(" in done.data
    assert done.left == check(done.data) == []
    (read,) = (f for f in done.migrated if f.code == "XLA503")
    assert SCALE.splitlines()[read.line - 1].strip().startswith(b"print(loss.item()")


def test_what_is_left_is_found_where_nothing_but_the_step_trains() -> None:
    """Once migrated, a file with a step and no backward trains as before: all of its lines are looked at."""
    source = """
import torch

class Stepper:
    def __call__(self, params):
        for p in params:
            if is_scheduled(self.optims[p]):
                self.optims[p].optimizer.step()
            else:
                self.optims[p].step()

def is_scheduled(optimizer) -> bool:
    return hasattr(optimizer, "optimizer")
"""
    user = """
import torch
from optim import Stepper

def fit(model, loader):
    step = Stepper()
    for x in loader:
        loss = model(x.cuda()).mean()
        loss.backward()
        step(model.parameters())
"""
    given = Modules({"optim.py": source.encode(), "fit.py": user.encode()})
    done = migrate(given.files["optim.py"], path="optim.py", project=Project(given, "optim.py"))
    assert b"xla.optimizer_step(self.optims[p])" in done.data
    assert Script(Source(done.data)).trains
