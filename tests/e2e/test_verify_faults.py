"""Faults put into a migrated script: each is caught and located; without them it is proven."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from xla_migrate.verify.judge.compare import Comparison, compare
from xla_migrate.verify.judge.observed import ObservedRun

from .observed import all_observed

pytestmark = pytest.mark.e2e
pytest.importorskip("torch_xla")

STEPS = 8

ORIGINAL = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(16, 8)
        self.body = nn.Linear(8, 8)
        self.head = nn.Linear(8, 16, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, x):
        return self.head(torch.tanh(self.body(self.embed(x))))


def main():
    torch.manual_seed(1)
    data = torch.randint(0, 16, (80, 6))
    loader = DataLoader(TensorDataset(data[:, :-1], data[:, 1:]), batch_size=8)
    model = Tied().cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    for step, (inputs, labels) in enumerate(loader):
        optimizer.zero_grad()
        for x, y in zip(inputs.cuda().chunk(2), labels.cuda().chunk(2)):
            loss = nn.functional.cross_entropy(model(x).flatten(0, 1), y.flatten()) / 2
            loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        optimizer.step()


main()
"""

MIGRATED = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from xla_migrate import runtime as xla


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(16, 8)
        self.body = nn.Linear(8, 8)
        self.head = nn.Linear(8, 16, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, x):
        return self.head(torch.tanh(self.body(self.embed(x))))


def main():
    xla.manual_seed(1)
    data = torch.randint(0, 16, (80, 6))
    loader = DataLoader(TensorDataset(data[:, :-1], data[:, 1:]), batch_size=8)
    model = Tied().to(xla.xla_device())
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    for step, (inputs, labels) in enumerate(xla.MpDeviceLoader(loader)):
        optimizer.zero_grad()
        for x, y in zip(inputs.chunk(2), labels.chunk(2)):
            loss = nn.functional.cross_entropy(model(x).flatten(0, 1), y.flatten()) / 2
            loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        xla.optimizer_step(optimizer)


main()
"""


@dataclass(frozen=True)
class Fault:
    """A change of the migrated script, and how it has to be told.

    Attributes:
        old, new: lines of MIGRATED, and what stands there in their place.
        verdict: the first that fails.
        line: the one that is blamed, by its text; empty if only a second run finds it.
        step: the first that differs, where numbers do.
        tensor: the one that is named.
        told: words of the verdict.
    """

    old: str
    new: str
    verdict: str
    line: str = ""
    step: int | None = None
    tensor: str | None = None
    told: str = ""


CLIP = "        nn.utils.clip_grad_norm_(model.parameters(), 0.1)\n"
BACKWARD = "            loss.backward()\n"
STEP = "        xla.optimizer_step(optimizer)\n"
BUILD = "    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)\n"
LOSS = "            loss = nn.functional.cross_entropy(model(x).flatten(0, 1), y.flatten()) / 2\n"

FAULTS = {
    "clipped before it is summed up": Fault(
        BACKWARD + CLIP,
        BACKWARD + "    " + CLIP,
        "numbers",
        STEP,
        1,
        told="clipping, scaling, accumulation or reduction differ, or their order",
    ),
    "sum in place of mean": Fault(
        LOSS,
        LOSS.replace(" / 2", ""),
        "numbers",
        BACKWARD,
        1,
        told="the batch, the labels or the forward pass differ",
    ),
    "weight decay of no default": Fault(
        BUILD,
        BUILD.replace("1e-2", "1e-2, weight_decay=0"),
        "numbers",
        BUILD.replace("1e-2", "1e-2, weight_decay=0"),
        1,
        told="the optimizer's weight_decay is 0.01 in the original, 0 here",
    ),
    "an optimizer without weight decay": Fault(
        BUILD,
        BUILD.replace("AdamW", "Adam"),
        "numbers",
        BUILD.replace("AdamW", "Adam"),
        1,
        tensor="embed.weight",
        told="the optimizer's weight_decay is 0.01 in the original, 0 here",
    ),
    "swapped labels": Fault(
        LOSS,
        LOSS.replace("y.flatten()", "y.flip(0).flatten()"),
        "numbers",
        BACKWARD,
        1,
        told="the batch, the labels or the forward pass differ",
    ),
    "untied weights": Fault(
        BUILD,
        "    model.head.weight = nn.Parameter(model.head.weight.detach().clone())\n" + BUILD,
        "numbers",
        BUILD,
        0,
        tensor="head.weight",
        told="untied, froze or added weights",
    ),
    "an optimizer on stale parameters": Fault(
        BUILD,
        BUILD.replace("model.parameters()", "[p.detach().clone() for p in model.parameters()]"),
        "numbers",
        BUILD.replace("model.parameters()", "[p.detach().clone() for p in model.parameters()]"),
        1,
        tensor="embed.weight",
        told="an optimizer that holds stale tensors",
    ),
    "a recompile each step": Fault(
        LOSS,
        LOSS + "            loss = loss + 0 * torch.ones(step + 1, device=x.device).sum()\n",
        "static shapes",
        "    for step, (inputs, labels) in enumerate(xla.MpDeviceLoader(loader)):\n",
        told="cause: user torch_xla.sync",
    ),
    "a host read each step": Fault(
        STEP,
        STEP + "        if loss > 100: print('high')\n",
        "host reads",
        "        if loss > 100: print('high')\n",
        told="truth value at train.py",
    ),
    "an operation that runs on the CPU": Fault(
        STEP,
        STEP + "        torch.histc(loss.detach(), 4)\n",
        "no fallback",
        told="run on the CPU, and each ends the graph: aten::histc",
    ),
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, ObservedRun]:
    """All of them."""
    scripts = {"original": (ORIGINAL, "reference"), "migrated": (MIGRATED, "target")}
    for name, fault in FAULTS.items():
        assert MIGRATED.count(fault.old) == 1
        scripts[name] = MIGRATED.replace(fault.old, fault.new), "target"
    return all_observed(scripts, tmp_path_factory.mktemp("faults"), steps=STEPS)


def told(comparison: Comparison) -> str:
    return f"{comparison}\n{comparison.target.failure}\n{comparison.target.output[-2000:]}"


def test_without_faults_it_is_proven(runs: dict[str, ObservedRun]) -> None:
    comparison = compare(runs["original"], runs["migrated"])
    assert comparison.proven, told(comparison)
    assert len(comparison.rows) == STEPS


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_caught_and_located(name: str, runs: dict[str, ObservedRun]) -> None:
    fault = FAULTS[name]
    comparison = compare(runs["original"], runs[name])
    assert comparison.could_run, told(comparison)
    assert not comparison.proven
    failed = comparison.failed
    assert failed[0].name == fault.verdict, told(comparison)
    assert fault.told in " ".join(v.detail for v in failed), told(comparison)
    lines = MIGRATED.replace(fault.old, fault.new).splitlines(keepends=True)
    blamed = [lines[int(v.where.rpartition(":")[2]) - 1] for v in failed if v.where]
    assert not fault.line or fault.line in blamed, f"{blamed}\n{told(comparison)}"
    if fault.step is not None:
        assert comparison.divergence is not None
        assert comparison.divergence.step == fault.step
        assert fault.tensor in (None, comparison.divergence.tensor), told(comparison)
    else:
        assert comparison.divergence is None, told(comparison)
