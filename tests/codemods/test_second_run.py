"""One run does all that further runs would do."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from xla_codemods.engine import check, migrate

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


def test_a_function_that_the_second_look_passes_over_is_not_followed() -> None:
    """Once the step is the runtime's, nothing says that this file trains: `restored` has no line of interest."""
    source = """
import torch


def restored(optimizer, state):
    optimizer.restore(state)


class Optimizers:
    def __call__(self, params, waiting):
        for p in params:
            if p in waiting:
                restored(self.optims[p], waiting[p])
            if isinstance(self.optims[p], torch.optim.lr_scheduler.LRScheduler):
                self.optims[p].optimizer.step()
            else:
                self.optims[p].step()


def load(path, device="cuda"):
    return torch.load(path, map_location=device)
"""
    done = migrate(source.encode())
    assert b"xla.optimizer_step(self.optims[p])" in done.data
    assert done.left == check(done.data) == []
    assert migrate(done.data).data == done.data
