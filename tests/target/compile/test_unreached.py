"""Branches that a rehearsal did not take: those that a later step may take are reported."""

from __future__ import annotations

from pathlib import Path

import pytest

from xla_migrate.target.compile import report
from xla_migrate.target.compile.child.unreached import unreached

from .traced import traced

LOOP = """
class Trainer:
    def __init__(self):
        self.step = 0
        self.fast = True

    def advance(self):
        self.step += 1

def train(args, model, epoch, mask=None):
    best, total = 0, 0
    for step, batch in enumerate(loader):
        loss = model(batch)
        total += 1
        if CONDITION:
            BODY
        else:
            pass
"""


def _found(condition: str, body: str = "model.evaluate()") -> list[str]:
    source = LOOP.replace("CONDITION", condition).replace("BODY", body)
    at = next(i for i, line in enumerate(source.splitlines(), 1) if body in line)
    lines = set(range(1, source.count("\n") + 1)) - {at}
    return [branch for _, branch in unreached(source, lines)]


@pytest.mark.parametrize(
    "condition",
    [
        "step % 100 == 99",
        "(step + 1) % args.every == 0",
        "loss.item() < best",
        "epoch == 5",
        "trainer.step > 100",
        "total >= 50 and args.log",
        "not step % 10",
    ],
)
def test_a_condition_that_changes(condition: str) -> None:
    assert len(_found(condition)) == 1


@pytest.mark.parametrize(
    "condition",
    ["args.resume", "mask is not None", "trainer.fast", "dist.get_rank() == 0", "args.n > 5"],
)
def test_a_condition_that_is_the_same_in_all_steps(condition: str) -> None:
    assert _found(condition) == []


def test_a_branch_that_only_raises_or_ends_the_loop() -> None:
    assert _found("step == 9", "raise ValueError(step)") == []
    assert _found("step == 9", "break") == []
    assert _found("not math.isfinite(loss)", "print(loss); sys.exit(1)") == []


def test_a_branch_that_ran_and_one_whose_condition_was_not_evaluated() -> None:
    source = "for i in x:\n    if i > 3:\n        f(i)\n    else:\n        g(i)\n"
    assert unreached(source, {1, 2, 3, 5}) == []
    assert unreached(source, {1, 2, 3}) == [(2, "else of if i > 3")]
    assert unreached(source, {1}) == []


SCRIPT = """
import torch
from torch.utils.data import DataLoader, TensorDataset
from xla_migrate import runtime as xla

data = TensorDataset(torch.randn(64, 6), torch.randn(64, 3))
model = torch.nn.Linear(6, 3).to(xla.xla_device())
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for word in "fast", "slow":
    if word not in ("fast", "slow"):
        print("unknown option", word)
for step, (x, y) in enumerate(xla.MpDeviceLoader(DataLoader(data, batch_size=4))):
    optimizer.zero_grad()
    loss = torch.nn.functional.mse_loss(model(x), y)
    loss.backward()
    xla.optimizer_step(optimizer)
    if step % 2 == 1:
        print(loss.item())
    if step % 10 == 9:
        print(model.weight.norm().item())
"""


@pytest.mark.e2e
def test_the_report_names_the_branches_of_the_training(tmp_path: Path) -> None:
    script = tmp_path / "project" / "train.py"
    script.parent.mkdir()
    script.write_text(SCRIPT)
    found = traced(script, [], tmp_path / "run", explain=True)
    assert found.problem == "", found.output
    line = SCRIPT.splitlines().index("    if step % 10 == 9:") + 1
    assert found.unreached == {f"train.py:{line}": "if step % 10 == 9"}
    assert any(
        f"`if step % 10 == 9` (train.py:{line})" in text for text in report.count_lines(found, 9)
    )
    assert len(report.plain_count(found)["unreached"]) == 1
