"""Training whose single steps amplify rounding is proven in float64, where a small fault is caught all the same."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from xla_migrate.verify.judge.compare import compare
from xla_migrate.verify.judge.float64_check import Float64Runs
from xla_migrate.verify.judge.observed import ObservedRun

from .observed import all_observed, observed

pytestmark = pytest.mark.e2e
pytest.importorskip("torch_xla")

STEPS = 4

# Batch norm over four values, fourteen times: gradients of the first step are 1e-4 apart and more.
MIGRATED = """\
import torch
from torch import nn
from xla_migrate import runtime as xla

device = xla.xla_device()
xla.manual_seed(1)
data, labels = torch.randn(12, 4, 16), torch.randint(0, 3, (12, 4))
layers = []
for _ in range(14):
    layers += [nn.Linear(16, 16), nn.BatchNorm1d(16), nn.ReLU()]
model = nn.Sequential(*layers, nn.Linear(16, 3)).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(12):
    x, y = data[step].to(device), labels[step].to(device)
    loss = nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    xla.mark_step()
"""
ORIGINAL = (
    MIGRATED.replace("from xla_migrate import runtime as xla\n", "")
    .replace("xla.xla_device()", '"cuda"')
    .replace("xla.manual_seed", "torch.manual_seed")
    .replace("    xla.mark_step()\n", "")
)
FAULT = "    loss.backward()\n    for p in model.parameters(): p.grad.mul_(1 + 1e-4 * (step > 1))\n"
FAULTY = MIGRATED.replace("    loss.backward()\n", FAULT)

# The runs that take the original's weights: what is run, on which side, and how it computes.
FOLLOWERS: Mapping[str, tuple[str, str, dict[str, Any]]] = {
    "narrow": (MIGRATED, "target", {}),
    "wide original": (ORIGINAL, "reference", {"arithmetic": "float64"}),
    "wide": (MIGRATED, "target", {"arithmetic": "float64"}),
    "faulty": (FAULTY, "target", {"arithmetic": "float64"}),
    "rough": (ORIGINAL, "reference", {"roughness": 1e-5}),
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, ObservedRun]:
    base = tmp_path_factory.mktemp("rounding")
    kept = base / "weights"
    scripts = {"original": (ORIGINAL, "reference")}
    found = all_observed(scripts, base, steps=STEPS, keep=kept)
    with ThreadPoolExecutor(2) as pool:
        waiting = {}
        for name, (script, side, how) in FOLLOWERS.items():
            own = base / f"weights of {name}"
            own.mkdir()
            for file in kept.iterdir():
                (own / file.name).hardlink_to(file)
            more = {"steps": STEPS, "follow": own, **how}
            waiting[name] = pool.submit(observed, script, side, base / name, **more)
        return found | {name: future.result() for name, future in waiting.items()}


def test_alone_the_first_step_differs_and_in_float64_it_is_proven(
    runs: dict[str, ObservedRun],
) -> None:
    pair = runs["original"], runs["narrow"]
    assert all(run.failure is None for run in runs.values()), [r.failure for r in runs.values()]
    narrow = compare(*pair, followed=pair)
    assert narrow.divergence is not None, "this training amplifies no rounding any more"
    assert narrow.divergence.step == 1
    exact = Float64Runs(runs["wide original"], runs["wide"], runs["rough"])
    found = compare(*pair, followed=pair, exact=exact)
    assert found.proven, str(found)
    assert "times what errors of 1e-05 in every operation do" in found.verdicts[1].detail


def test_a_fault_below_the_rounding_of_float32_is_caught_and_located(
    runs: dict[str, ObservedRun],
) -> None:
    pair = runs["original"], runs["narrow"]
    exact = Float64Runs(runs["wide original"], runs["faulty"], runs["rough"])
    found = compare(*pair, followed=pair, exact=exact)
    assert found.divergence is not None
    assert (found.divergence.step, found.divergence.quantity) == (3, "gradient"), str(found)
    assert found.failed[0].detail.startswith("also in float64, step 3: gradient")
