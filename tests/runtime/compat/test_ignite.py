"""ignite trains on XLA where it is patched."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

from xla_migrate import runtime as xla

TRAINS = """\
import sys
import torch
from ignite.engine import Engine, Events, create_supervised_evaluator
from ignite.handlers import Checkpoint, DiskSaver
from ignite.metrics import Accuracy, Loss
from torch.utils.data import DataLoader, TensorDataset
from xla_migrate import runtime as xla

if sys.argv[1] == "patched":
    xla.patch_ignite()
    xla.patch_ignite()
device = xla.xla_device()
torch.manual_seed(0)
model = torch.nn.Linear(4, 2).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loss_fn = torch.nn.CrossEntropyLoss()
data = TensorDataset(torch.randn(24, 4), torch.arange(24) % 2)

def update(engine, batch):
    x, y = (part.to(device) for part in batch)
    optimizer.zero_grad()
    loss_fn(model(x), y).backward()
    xla.optimizer_step(optimizer)
    xla.mark_step()

trainer = Engine(update)
metrics = {"accuracy": Accuracy(device=device), "loss": Loss(loss_fn)}
evaluator = create_supervised_evaluator(model, metrics, device=device)
saver = Checkpoint({"model": model}, DiskSaver("saved", create_dir=True))
trainer.add_event_handler(Events.EPOCH_COMPLETED, saver)
trainer.run(DataLoader(data, batch_size=8), max_epochs=2)
evaluator.run(DataLoader(data, batch_size=8))
print(evaluator.state.metrics["loss"])
"""


def _run(tmp_path: Path, how: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "ignore", "-c", TRAINS, how],
        env={**os.environ, "PJRT_DEVICE": "CPU", "OMP_NUM_THREADS": "1"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


@pytest.mark.e2e
def test_it_trains_as_without_xla(tmp_path: Path) -> None:
    pytest.importorskip("ignite")
    pytest.importorskip("torch_xla")
    done = _run(tmp_path, "patched")
    assert done.returncode == 0, done.stderr[-3000:]
    assert float(done.stdout.splitlines()[-1]) == pytest.approx(_loss(), rel=1e-5)


def _loss() -> float:
    """Of the same training in plain torch."""
    torch.manual_seed(0)
    model = torch.nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loss_fn = torch.nn.CrossEntropyLoss()
    x, y = torch.randn(24, 4), torch.arange(24) % 2
    for step in range(6):
        part = slice(step % 3 * 8, step % 3 * 8 + 8)
        optimizer.zero_grad()
        loss_fn(model(x[part]), y[part]).backward()
        optimizer.step()
    return float(loss_fn(model(x), y).detach())


@pytest.mark.e2e
def test_what_it_mends_is_still_so(tmp_path: Path) -> None:
    pytest.importorskip("ignite")
    pytest.importorskip("torch_xla")
    done = _run(tmp_path, "unpatched")
    assert done.returncode != 0
    assert "xla" in done.stderr.splitlines()[-1].lower()


def test_a_metric_on_xla_is_one_on_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    xm = pytest.importorskip("torch_xla.core.xla_model")

    class Metric:
        def __init__(self, output_transform: Any = None, device: Any = "cpu") -> None:
            self.device = str(device)

    for name in ("ignite", "ignite.metrics", "ignite.metrics.metric"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    vars(sys.modules["ignite.metrics.metric"])["Metric"] = Metric
    monkeypatch.setattr("xla_migrate.runtime.compat.ignite.uses_torch_xla", lambda: True)
    for name in {"xrt_world_size", "get_ordinal"} - vars(xm).keys():
        monkeypatch.setattr(xm, name, None, raising=False)  # it is gone again behind this test
        delattr(xm, name)
    xla.patch_ignite()
    xla.patch_ignite()
    assert Metric(None, "xla").device == Metric(device="xla:0").device == Metric().device == "cpu"
    assert Metric(device="cuda:1").device == "cuda:1"
