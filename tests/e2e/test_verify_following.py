"""Training that amplifies rounding is compared step by step from the original's weights; faults are caught there too."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from xla_migrate.verify.judge.compare import compare
from xla_migrate.verify.judge.observed import ObservedRun

from . import test_verify_faults as faults
from .observed import observed

pytestmark = pytest.mark.e2e
pytest.importorskip("torch_xla")

STEPS = 16

# A network that is trained far too fast: a difference of 1e-7 is one of 1e-3 and more at the end.
MIGRATED = """\
import torch
from torch import nn
from xla_migrate import runtime as xla

device = xla.xla_device()
data, labels = torch.randn(16, 32, 10), torch.randint(0, 4, (16, 32))
layers = [nn.Linear(10, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 4)]
model = nn.Sequential(*layers).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=6.0, momentum=0.9)
for step in range(16):
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
    .replace("    xla.mark_step()\n", "")
)

BATCH = "    x, y = data[step].to(device), labels[step].to(device)\n"
STEP = "    optimizer.step()\n"


@dataclass(frozen=True)
class Late:
    """A fault that begins at its step, where what rounding has become might hide it."""

    old: str
    new: str
    step: int
    quantity: str


LATE = {
    "another batch": Late(
        BATCH, BATCH.replace("labels[step]", "labels[min(step, 10)]"), 12, "loss"
    ),
    "one label": Late(
        BATCH, BATCH + "    y = y.clone()\n    y[0] = (y[0] + (step > 8)) % 4\n", 10, "loss"
    ),
    "a schedule": Late(
        STEP,
        STEP + "    optimizer.param_groups[0]['lr'] = 6.0 if step < 8 else 5.9\n",
        10,
        "option",
    ),
    "momentum that is forgotten": Late(
        STEP, STEP + "    if step == 9: optimizer.state.clear()\n", 11, "weights"
    ),
    "gradients that are scaled": Late(
        STEP,
        "    for p in model.parameters(): p.grad.mul_(1 if step < 12 else 1.01)\n" + STEP,
        13,
        "gradient",
    ),
    "weights that shrink": Late(
        STEP,
        STEP
        + "    with torch.no_grad():\n"
        + "        for p in model.parameters(): p.mul_(1 - 1e-4)\n",
        2,
        "loss",
    ),
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, ObservedRun]:
    """All of them, two at a time."""
    base = tmp_path_factory.mktemp("following")
    found = {
        "original": observed(
            ORIGINAL, "reference", base / "original", keep=base / "weights", steps=STEPS
        ),
        "alone": observed(MIGRATED, "target", base / "alone", steps=STEPS),
    }
    scripts = {"migrated": MIGRATED}
    for name, late in LATE.items():
        assert MIGRATED.count(late.old) == 1
        scripts[name] = MIGRATED.replace(late.old, late.new)
    return found | followers(scripts, base / "weights", base)


def followers(scripts: dict[str, str], kept: Path, base: Path) -> dict[str, ObservedRun]:
    """Runs that take the kept weights; each takes its files away, so each has its own."""
    with ThreadPoolExecutor(2) as pool:
        waiting = {}
        for number, (name, script) in enumerate(scripts.items()):
            own = base / f"weights{number}"
            own.mkdir()
            for file in kept.iterdir():
                (own / file.name).hardlink_to(file)
            place = base / f"run{number}"
            waiting[name] = pool.submit(observed, script, "target", place, follow=own, steps=STEPS)
        return {name: future.result() for name, future in waiting.items()}


def test_alone_it_parts_and_step_by_step_it_is_proven(runs: dict[str, ObservedRun]) -> None:
    original, alone = runs["original"], runs["alone"]
    assert original.failure is None, original.output[-2000:]
    left_alone = compare(original, alone)
    assert left_alone.divergence is not None, "this training amplifies no rounding any more"
    assert left_alone.divergence.step > 1
    comparison = compare(original, alone, followed=(original, runs["migrated"]))
    assert comparison.proven, str(comparison)
    assert "this training amplifies rounding" in str([v.detail for v in comparison.verdicts])


@pytest.mark.parametrize("name", LATE)
def test_a_late_fault_is_caught_at_its_step(name: str, runs: dict[str, ObservedRun]) -> None:
    late = LATE[name]
    pair = runs["original"], runs[name]
    assert pair[1].failure is None, pair[1].output[-2000:]
    comparison = compare(runs["original"], runs["alone"], followed=pair)
    assert comparison.divergence is not None, str(comparison)
    found = comparison.divergence
    assert (found.step, found.quantity.value) == (late.step, late.quantity), str(comparison)


BY_HAND = (
    "    model.zero_grad()\n"
    "    loss.backward()\n"
    "    for p in model.parameters():\n"
    "        p.data.add_(p.grad, alpha=-RATE)\n"
)


def by_hand(script: str, rate: str) -> str:
    """The same training without an optimizer."""
    build = "optimizer = torch.optim.SGD(model.parameters(), lr=6.0, momentum=0.9)\n"
    step = "    optimizer.zero_grad()\n    loss.backward()\n    optimizer.step()\n"
    assert build in script
    assert step in script
    return script.replace(build, "").replace(step, BY_HAND.replace("RATE", rate))


def test_weights_that_are_updated_by_hand_are_exchanged_too(tmp_path: Path) -> None:
    kept = tmp_path / "weights"
    original = observed(
        by_hand(ORIGINAL, "9"), "reference", tmp_path / "original", keep=kept, steps=STEPS
    )
    scripts = {
        "same": by_hand(MIGRATED, "9"),
        "late": by_hand(MIGRATED, "(9 if step < 9 else 9.5)"),
    }
    runs = followers(scripts, kept, tmp_path)
    same = compare(original, runs["same"], followed=(original, runs["same"]))
    assert same.proven, str(same)
    late = compare(original, runs["late"], followed=(original, runs["late"]))
    assert late.divergence is not None
    assert (late.divergence.step, late.divergence.quantity) == (10, "weights")


NAMES = ("clipped before it is summed up", "weight decay of no default", "swapped labels")
NUMERIC = {name: faults.FAULTS[name] for name in NAMES}


@pytest.fixture(scope="module")
def faulty(tmp_path_factory: pytest.TempPathFactory) -> dict[str, ObservedRun]:
    base = tmp_path_factory.mktemp("faulty")
    kept = base / "weights"
    original = observed(faults.ORIGINAL, "reference", base / "original", keep=kept, steps=STEPS)
    scripts = {n: faults.MIGRATED.replace(f.old, f.new) for n, f in NUMERIC.items()}
    return {"original": original, **followers(scripts, kept, base)}


@pytest.mark.parametrize("name", NUMERIC)
def test_a_fault_is_caught_though_weights_are_taken_from_the_original(
    name: str, faulty: dict[str, ObservedRun]
) -> None:
    pair = faulty["original"], faulty[name]
    comparison = compare(*pair, followed=pair)
    assert comparison.divergence is not None, str(comparison)
    assert comparison.divergence.step == NUMERIC[name].step
    assert comparison.failed[0].name == "numbers"
