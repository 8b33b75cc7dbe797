"""Scripts that make torch_xla compile at every step: the line whose shape or number changes is blamed, by cause."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from xla_migrate.verify.judge.observed import ObservedRun
from xla_migrate.verify.judge.performance.verdicts import judge

from .observed import all_observed

pytestmark = pytest.mark.e2e
pytest.importorskip("torch_xla")

STEPS = 9

SCRIPT = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from xla_migrate import runtime as xla

data = TensorDataset(torch.randn(72, 6), torch.randint(0, 3, (72,)))
loader = DataLoader(data, batch_size=8)
model = nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 3)).to(xla.xla_device())
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
history = torch.zeros(1, device=xla.xla_device())
losses = []
for step, (x, y) in enumerate(xla.MpDeviceLoader(loader)):
    out = model(x)
    loss = nn.functional.cross_entropy(out, y)
    optimizer.zero_grad()
    loss.backward()
    xla.optimizer_step(optimizer)
"""

LOSS = "    loss = nn.functional.cross_entropy(out, y)\n"
LOADER = "loader = DataLoader(data, batch_size=8)\n"
OUT = "    out = model(x)\n"


@dataclass(frozen=True)
class Fault:
    """A change of SCRIPT, the text of the line that is to blame, and words of the cause."""

    old: str
    new: str
    line: str
    cause: str


FAULTS = {
    "a number that is a size": Fault(
        LOSS,
        LOSS + "    loss = loss + 0 * torch.ones(step + 1, device=x.device).sum()\n",
        "    loss = loss + 0 * torch.ones(step + 1, device=x.device).sum()\n",
        "a Python number that is part of the graph: ones()",
    ),
    "a number that is an index": Fault(
        LOSS,
        LOSS + "    loss = loss + out[step % 8].sum() * 0\n",
        "    loss = loss + out[step % 8].sum() * 0\n",
        "a Python number that is part of the graph: __getitem__()",
    ),
    "batches of other shapes": Fault(
        LOADER,
        "loader = DataLoader(data, batch_sampler=[range(n + 4) for n in range(12)])\n",
        OUT,
        "a batch of another shape, first used by linear()",
    ),
    "a tensor that grows": Fault(
        LOSS,
        LOSS
        + "    history = torch.cat([history, loss.detach()[None]])\n"
        + "    loss = loss + 0 * history.mean()\n",
        "    history = torch.cat([history, loss.detach()[None]])\n",
        "a tensor whose shape changes, made by cat()",
    ),
    "a list that grows": Fault(
        LOSS,
        LOSS
        + "    losses.append(loss.detach())\n    loss = loss + 0 * torch.stack(losses).mean()\n",
        "    loss = loss + 0 * torch.stack(losses).mean()\n",
        "a list of tensors that grows or shrinks: stack()",
    ),
    "other operations": Fault(
        LOSS,
        LOSS + "    for _ in range(step):\n        loss = torch.sin(loss)\n",
        "        loss = torch.sin(loss)\n",
        "sin()",
    ),
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, ObservedRun]:
    """All of them."""
    scripts = {"none": (SCRIPT, "target")}
    for name, fault in FAULTS.items():
        assert SCRIPT.count(fault.old) == 1
        scripts[name] = SCRIPT.replace(fault.old, fault.new), "target"
    return all_observed(scripts, tmp_path_factory.mktemp("recompiles"), steps=STEPS, explain=True)


def test_without_a_fault_shapes_are_static(runs: dict[str, ObservedRun]) -> None:
    good = runs["none"]
    assert good.failure is None, good.output[-2000:]
    verdict = judge(good, good, None, good)[0][0]
    assert (verdict.name, verdict.status) == ("static shapes", "ok")


@pytest.mark.parametrize("name", FAULTS)
def test_the_line_that_changes_is_blamed(name: str, runs: dict[str, ObservedRun]) -> None:
    fault, found = FAULTS[name], runs[name]
    assert found.failure is None, found.output[-2000:]
    verdict = judge(found, found, None, found)[0][0]
    told = f"{verdict}\n{found.traces[0].recompiles}"
    assert (verdict.name, verdict.status) == ("static shapes", "failed"), told
    lines = SCRIPT.replace(fault.old, fault.new).splitlines(keepends=True)
    assert verdict.where.startswith("train.py:"), told
    assert lines[int(verdict.where.rpartition(":")[2]) - 1] == fault.line, told
    assert fault.cause in verdict.detail, told
