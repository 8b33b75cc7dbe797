"""A run is recorded where tensors are not on the CPU as it is on the CPU: the stand-in refuses what CUDA refuses."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from xla_migrate.verify.judge.trace import Trace
from xla_migrate.verify.recordings.recording import load

from ...runtime.native import building

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++"),
]
SCRIPT = """\
import sys
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(50, 32)
        self.lstm = nn.LSTM(32, 64, batch_first=True)
        self.norm = nn.LayerNorm(64)
        self.head = nn.Linear(64, 5)

    def forward(self, x):
        return self.head(self.norm(self.lstm(self.embed(x))[0]))


torch.manual_seed(0)
place = sys.argv[1]
model = Tagger().to(place)
scale = nn.Linear(1, 1)  # stays on the CPU
data = TensorDataset(torch.randint(0, 50, (32, 6)), torch.randint(0, 5, (32, 6)))
main = torch.optim.Adam(model.parameters(), lr=0.01)
both = torch.optim.SGD([*scale.parameters(), model.head.bias], lr=0.1, momentum=0.9)
for x, y in DataLoader(data, batch_size=8, shuffle=True):
    loss = nn.functional.cross_entropy(model(x.to(place)).flatten(0, 1), y.to(place).flatten())
    small = scale(torch.ones(4, 1)).pow(2).mean()
    main.zero_grad()
    both.zero_grad()
    loss.backward()
    small.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    main.step()
    both.step()
    print(f"loss {loss.item():.4f} {small.item():.4f}")
closure = torch.optim.LBFGS(model.head.parameters(), max_iter=2)


def again():
    closure.zero_grad()
    loss = model(x.to(place)).pow(2).mean()
    loss.backward()
    return loss


closure.step(again)
"""
# Executed before the script: the original's run leaves out the backends that torch would load by itself.
BACKEND = "import torch\ntorch._import_device_backends()\n"


def recorded(folder: Path, site: Path, place: str) -> Trace:
    """The trace of the script's run on that device."""
    env = {
        **os.environ,
        "STANDIN_NAME": "tpu",
        "PYTHONPATH": os.pathsep.join([str(site), *sys.path]),
    }
    command = ["verify", "train.py", "--record", f"{place}.rec", "--data-shim", "shim.py"]
    done = subprocess.run(
        [sys.executable, "-m", "xla_migrate", *command, "--no-report", "--", place],
        cwd=folder,
        env=env,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (trace,) = load(folder / f"{place}.rec").runs["float32"].traces
    return trace


def test_the_recording_is_that_of_the_cpu(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    cache = Path(request.config.cache.mkdir("standin"))  # type: ignore[union-attr]
    site = building.site(sys.executable, cache)
    (tmp_path / "train.py").write_text(SCRIPT)
    (tmp_path / "shim.py").write_text(BACKEND)
    found, expected = (recorded(tmp_path, site, place) for place in ("tpu", "cpu"))
    assert "tpu" in found.devices
    assert len(found.steps) == len(expected.steps) == 9
    for one, other in zip(found.steps, expected.steps, strict=True):
        for name in ("losses", "gradients", "norms", "projections", "moved"):
            here, there = getattr(one, name), getattr(other, name)
            assert here == pytest.approx(there, rel=1e-4, abs=1e-6), name
    assert found.details.batches == expected.details.batches
    assert found.details.inputs.keys() == expected.details.inputs.keys()
    assert len(found.details.modules) > 1
    for event, calls in found.details.modules.items():
        alike = expected.details.modules[event]
        assert calls.calls == alike.calls
        assert calls.uses == alike.uses
        for here, there in zip(
            [*calls.tensors, *calls.gradients], [*alike.tensors, *alike.gradients], strict=True
        ):
            assert here == pytest.approx(there, rel=1e-4, abs=1e-6)
    assert len(found.details.updates) > 1
    for event, update in found.details.updates.items():
        for mine, theirs in zip(
            update.parameters, expected.details.updates[event].parameters, strict=True
        ):
            assert mine is not None
            assert theirs is not None
            assert mine.after == pytest.approx(theirs.after, rel=1e-4, abs=1e-6)
            assert mine.state.keys() == theirs.state.keys()
