"""A rehearsal counts as many graphs as torch_xla compiles when the script really runs."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from xla_migrate.target.compile import tracing
from xla_migrate.verify.judge import graph_count

from ... import warm
from .traced import traced

TRAINS = """
import copy
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from xla_migrate import runtime as xla

device = xla.xla_device()
BEFORE
data = TensorDataset(torch.randn(24, 6, device="cpu"), torch.randint(0, 3, (24,), device="cpu"))
model = nn.Linear(6, 3).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(3):
    for x, y in xla.MpDeviceLoader(DataLoader(data, batch_size=8)):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        xla.optimizer_step(optimizer)
        xla.later(lambda loss=loss: print(f"{loss.item():.3f}"))
    AFTER
"""
COUNTS = """
import torch_xla.debug.metrics as metrics
xla.synchronize()
print("compiled", metrics.counter_value("UncachedCompile"))
"""


def _counts(before: str, after: str, folder: Path) -> tuple[tracing.Tracing, int]:
    """Return the rehearsal and the number of graphs that a run on XLA:CPU compiles."""
    script = folder / "project" / "train.py"
    script.parent.mkdir()
    source = TRAINS.replace("BEFORE", before).replace("AFTER", after)
    script.write_text(source + COUNTS)
    found = traced(script, [], folder / "run", explain=True)
    assert found.problem == "", found.output
    ran = subprocess.run(
        [warm.for_side("target"), str(script)],
        env={**os.environ, "PJRT_DEVICE": "CPU"},
        capture_output=True,
        text=True,
        check=True,
    )
    return found, int(ran.stdout.rpartition("compiled ")[2])


@pytest.mark.e2e
@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("torch.set_default_device(device)", "pass"),
        ("", "best = copy.deepcopy(model.state_dict())"),
        ("", "best = {name: value.clone() for name, value in model.state_dict().items()}"),
        ("", "average = [p.detach().clone() for p in model.parameters()]"),
        ("", "twin = copy.deepcopy(model)\n    print(twin.weight.sum().item())"),
        ("", "model.weight.data.mul_(0.9 + 0.1 * loss.item())"),
        ("", "scale = loss.item()\n    print((x * scale).sum().item())"),
        ("started = copy.deepcopy(nn.Linear(6, 3).to(device))", "pass"),
        (  # a tensor that was updated in place is read by another graph than before
            "nn.Linear.forward = lambda self, x, forward=nn.Linear.forward: ("
            "print(self.weight.norm().item()), forward(self, x))[1]",
            "pass",
        ),
        ("", "print(x.median(dim=1).values.sum().item())"),  # no kernel: its operands are one graph
    ],
)
def test_as_many_graphs_as_a_run_compiles(before: str, after: str, tmp_path: Path) -> None:
    found, compiled = _counts(before, after, tmp_path)
    causes = graph_count.groups(found.causes, found.steps)
    assert graph_count.predicted(causes, found.left_out) == compiled, causes


@pytest.mark.e2e
def test_the_seconds_of_each_cause_are_what_torch_xla_measures(tmp_path: Path) -> None:
    script = tmp_path / "project" / "train.py"
    script.parent.mkdir()
    total = "print('compiling', metrics.metric_data('CompileTime')[1] / 1e9)"
    source = TRAINS.replace("BEFORE", "").replace(
        "AFTER", "best = copy.deepcopy(model.state_dict())"
    )
    script.write_text(source + COUNTS + total)
    found = traced(script, [], tmp_path / "run", explain=True, execute=True)
    assert found.problem == "", found.output
    seconds = [cause.seconds for cause in found.causes]
    assert all(seconds), found.causes
    measured = float(found.output.rpartition("compiling ")[2].split()[0])
    assert sum(seconds) == pytest.approx(measured, rel=0.01)


@pytest.mark.e2e
def test_clones_are_a_graph_with_the_line_that_makes_them(tmp_path: Path) -> None:
    found, _ = _counts("", "best = copy.deepcopy(model.state_dict())", tmp_path)
    line = TRAINS.splitlines().index("    AFTER") + 1
    assert f"train.py:{line}" in {cause.where for cause in found.causes}


@pytest.mark.e2e
def test_causes_are_not_calls_of_the_preparation(tmp_path: Path) -> None:
    found, _ = _counts("", "pass", tmp_path)
    lines = TRAINS.splitlines()
    built = lines.index("model = nn.Linear(6, 3).to(device)") + 1
    assert f"train.py:{built}" not in {cause.where for cause in found.causes}
    assert not any("another shape" in cause.cause for cause in found.causes)
