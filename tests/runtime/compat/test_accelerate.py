"""accelerate on XLA devices trains at the same batches, in the same order, as on the CPU."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
import torch
import torch.utils.checkpoint

from xla_migrate import runtime as xla
from xla_migrate.runtime.compat import accelerate

from ... import warm

pytest.importorskip("accelerate")

SCRIPT = """\
import json, sys
import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch.utils.data import DataLoader, TensorDataset
from xla_migrate import runtime as xla

kind = sys.argv[1]
if kind != "unpatched":
    xla.patch_accelerate()
    xla.patch_accelerate()
set_seed(0)
accelerator = Accelerator(gradient_accumulation_steps=3)
x = torch.arange(38.0)

class Data(TensorDataset):
    def __getitem__(self, i):
        if kind == "raises" and i == 7:
            raise KeyError("sample 7")
        return super().__getitem__(i)

model = torch.nn.Linear(1, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
loader = DataLoader(Data(x), batch_size=4, shuffle=True)
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
steps, order, told = [], [], []
try:
    for epoch in range(2):
        for (batch,) in loader:
            with accelerator.accumulate(model):
                accelerator.backward(model(batch[:, None]).sum())
                optimizer.step()
                optimizer.zero_grad()
            state = accelerator.gradient_state
            steps.append(int(accelerator.sync_gradients))
            told.append((state.end_of_dataloader, state.remainder))
            order += batch.tolist()
    raised = False
except KeyError:
    raised = True
accelerator.print("printed")
print(json.dumps([steps, order, told, raised, model.weight.item(), xla.device_type()]))
"""


def run(folder: Path, kind: str, **env: str) -> tuple[list[object], bool]:
    """What the script found, and whether the accelerator printed."""
    (folder / "train.py").write_text(SCRIPT)
    python = warm.for_side("reference" if env.get("USE_TORCH_XLA") == "0" else "target")
    done = subprocess.run(
        [python, "train.py", kind],
        cwd=folder,
        env={k: v for k, v in os.environ.items() if k != "LOCAL_RANK"}
        | {"PJRT_DEVICE": "CPU", "OMP_NUM_THREADS": "1", **env},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    lines = done.stdout.splitlines()
    return json.loads(lines[-1]), "printed" in lines


def test_steps_order_and_prints_are_those_of_the_cpu(tmp_path: Path) -> None:
    expected, _ = run(tmp_path, "plain", USE_TORCH_XLA="0", XLA_MIGRATE_BACKEND="eager")
    found, printed = run(tmp_path, "plain")
    assert expected[-1] == "cpu"
    assert found[-1] == "xla"
    assert expected[0] == [0, 0, 1, 0, 0, 1, 0, 0, 1, 1] * 2
    assert found[:4] == expected[:4]
    assert found[4] == pytest.approx(expected[4], rel=1e-5)
    assert printed


def test_an_exception_of_the_dataset_is_raised(tmp_path: Path) -> None:
    found, _ = run(tmp_path, "raises")
    assert found[3] is True


def test_without_the_patch_steps_are_at_other_batches(tmp_path: Path) -> None:
    """When this fails, accelerate has mended it, and the patch and XLA814 can go."""
    found, printed = run(tmp_path, "unpatched")
    assert found[0] != [0, 0, 1, 0, 0, 1, 0, 0, 1, 1] * 2
    assert not printed


def test_fact_1_101_models_of_transformers_checkpoint_with_the_runtime_s_function(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for checkpoint, becomes in (
        (torch.utils.checkpoint.checkpoint, xla.checkpoint),
        (print, print),  # somebody's own
    ):
        models = ModuleType("transformers.modeling_utils")
        models.checkpoint = checkpoint  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "transformers", ModuleType("transformers"))
        monkeypatch.setitem(sys.modules, "transformers.modeling_utils", models)
        accelerate._patch_checkpointing()
        assert models.checkpoint is becomes  # type: ignore[attr-defined]
    monkeypatch.delitem(sys.modules, "transformers")
    accelerate._patch_checkpointing()


LOGGED = """\
import json
import torch
import torch_xla
from accelerate import Accelerator
from accelerate.tracking import GeneralTracker
from torch.utils.data import DataLoader
from xla_migrate import runtime as xla

class Tracker(GeneralTracker):
    name, requires_logging_directory, tracker = "mine", False, None
    rows = []

    def store_init_configuration(self, values):
        pass

    def log(self, values, step=None, **kwargs):
        self.rows.append([type(v).__name__ for v in values.values()] + [step])

    def finish(self):
        self.rows.append("closed")

xla.patch_accelerate()
accelerator = Accelerator(log_with=Tracker())
accelerator.init_trackers("p")
model = torch.nn.Linear(1, 1)
model, optimizer, loader = accelerator.prepare(
    model, torch.optim.SGD(model.parameters(), lr=0.1), DataLoader(torch.ones(24, 1), batch_size=4)
)
early = []
for step, x in enumerate(loader):
    loss = model(x).sum()
    accelerator.backward(loss)
    optimizer.step()
    optimizer.zero_grad()
    accelerator.log({"number": xla.item(loss)}, step=step)
    xla.later(lambda loss=loss, step=step: accelerator.log({"item": loss.item()}, step=step))
    accelerator.log({"lr": 1}, step=step)
    early.append(len(Tracker.rows))
    if step == 3:
        break
accelerator.end_training()
print(json.dumps([early, Tracker.rows]))
"""


@pytest.mark.e2e
def test_trackers_get_what_waits_in_order_and_before_they_are_closed(tmp_path: Path) -> None:
    pytest.importorskip("torch_xla")
    done = subprocess.run(
        [warm.for_side("target"), "-c", LOGGED],
        env={**os.environ, "PJRT_DEVICE": "CPU", "OMP_NUM_THREADS": "1"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    early, rows = json.loads(done.stdout.splitlines()[-1])
    assert early[0] == 0  # nothing was waited for
    expected = [[kind, step] for step in range(4) for kind in ("float", "float", "int")]
    assert rows == [*expected, "closed"]


@pytest.mark.parametrize("devices", [1, 2])
def test_processes_that_torch_xla_does_not_know_are_refused(
    monkeypatch: pytest.MonkeyPatch, devices: int
) -> None:
    state = {"backend": "xla", "num_processes": devices}
    monkeypatch.setattr(accelerate, "_devices", lambda: devices)
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    accelerate._refuse_copies(state)
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(RuntimeError, match="2 processes were started, but torch_xla knows one"):
        accelerate._refuse_copies(state)
    accelerate._refuse_copies({"backend": "xla", "num_processes": 2 * devices})
    accelerate._refuse_copies({"backend": "gloo", "num_processes": devices})
