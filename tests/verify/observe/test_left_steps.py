"""A step that its condition does not let be taken is no step of the migrated script, though torch's is called."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from xla_migrate import runtime as xla
from xla_migrate.runtime import step as runtime_step
from xla_migrate.verify.observe.process import records
from xla_migrate.verify.observe.process.patching import Patches
from xla_migrate.verify.observe.training import losses, steps


@pytest.fixture
def tap(tmp_path: Path) -> Iterator[steps.Tap]:
    patches, tap = Patches(), steps.Tap(None, lambda: None)
    records.open_in(str(tmp_path))
    losses.install(patches)
    steps.install(patches, tap)
    yield tap
    patches.undo()
    losses.forget()


@pytest.mark.parametrize("calls", [True, False], ids=["the device decides", "the host decides"])
def test_it_is_no_event_and_its_backward_pass_is_counted(
    calls: bool, tap: steps.Tap, monkeypatch: pytest.MonkeyPatch
) -> None:
    def decided(optimizer: Any, where: Any, average: Any, arguments: Any) -> Any:
        return optimizer.step() if calls or where else None

    monkeypatch.setattr(runtime_step, "step_if", decided)
    weight = torch.nn.Parameter(torch.ones(1))
    optimizer = torch.optim.SGD([weight], lr=0.0)
    left = []
    for taken in (True, False, False, True, True):
        (weight * 2).sum().backward()
        xla.optimizer_step(optimizer, where=torch.tensor(taken))
        left.append(tap.left)
    assert tap.events == 3
    assert left == [0, 1, 2, 0, 0]


def test_a_step_without_a_condition_is_a_step(tap: steps.Tap) -> None:
    weight = torch.nn.Parameter(torch.ones(1))
    optimizer = torch.optim.SGD([weight], lr=0.0)
    for _ in range(2):
        (weight * 2).sum().backward()
        xla.optimizer_step(optimizer)
    assert (tap.events, tap.left) == (2, 0)
