"""accelerate's own checkpoints on XLA devices, and its lists of all replicas."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from ... import warm
from .. import rehearsal

pytest.importorskip("accelerate")

SCRIPT = """
import json, logging, sys
import torch
from accelerate import Accelerator
from xla_migrate import runtime as xla

class Tied(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(3, 3)
        self.last = torch.nn.Linear(3, 3)
        self.last.weight = self.first.weight
    def forward(self, x):
        return self.last(self.first(x))

torch.manual_seed(0)
accelerator = Accelerator()
model = Tied()
optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5)
data = torch.utils.data.TensorDataset(torch.randn(8, 3))
loader = torch.utils.data.DataLoader(data, batch_size=2)
model, optimizer, loader, schedule = accelerator.prepare(model, optimizer, loader, schedule)

def epoch():
    losses = []
    for (x,) in loader:
        loss = model(x).square().mean()
        accelerator.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    schedule.step()
    return losses

folder = sys.argv[1]
epoch()
xla.save_state(accelerator, folder)
after, drawn = epoch(), torch.rand(2).tolist()
xla.load_state(accelerator, folder)
steps = {s["step"].device.type for s in optimizer.optimizer.state.values()}
again, drawn_again = epoch(), torch.rand(2).tolist()
xla.save_model(accelerator, model, folder + "/model")
print(json.dumps([after, again, drawn, drawn_again, sorted(steps), str(accelerator.device)]))
"""


@pytest.mark.parametrize("backend", ["torch_xla", "eager"])
def test_training_goes_on_from_its_checkpoint(backend: str, tmp_path: Path) -> None:
    env = {**os.environ, "PJRT_DEVICE": "CPU", "XLA_MIGRATE_BACKEND": backend}
    env |= {"USE_TORCH_XLA": "0"} if backend == "eager" else {}
    python = warm.for_side("reference" if backend == "eager" else "target")
    done = subprocess.run(
        [python, "-c", SCRIPT, str(tmp_path)],
        env=env,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found: Any = json.loads(done.stdout.splitlines()[-1])
    after, again, drawn, drawn_again, steps, device = found
    assert again == after
    assert drawn_again == drawn
    assert steps == ["cpu"]
    assert device.startswith("xla" if backend == "torch_xla" else "cpu")
    assert (tmp_path / "model" / "model.safetensors").stat().st_size > 0


LISTS = """
from xla_migrate import runtime as xla
xla.init_process_group("nccl", init_method="env://")
report("lists", xla.gather_lists([f"of {xla.rank()}"] * (xla.rank() + 1)))
"""


def test_lists_of_all_replicas_stand_one_behind_the_other() -> None:
    for replica in rehearsal.run(LISTS):
        assert replica["lists"] == ["of 0", "of 1", "of 1"]
