"""Which calls of optimizers are steps of the script."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
import torch

from xla_migrate.verify.observe.process import records
from xla_migrate.verify.observe.process.patching import Patches
from xla_migrate.verify.observe.training import losses, steps


class Doubling(torch.optim.SGD):
    """With a step of its own, which torch calls hooks around as around that of its base."""

    def step(self, closure: None = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            for parameter in group["params"]:
                parameter.grad.mul_(2)
        super().step()


class Outer(torch.optim.SGD):
    """Steps another."""

    def step(self, closure: None = None) -> None:  # type: ignore[override]
        self.inner.step()  # type: ignore[attr-defined]


class Failing(torch.optim.SGD):
    """Raises now and then."""

    fails = True

    def step(self, closure: None = None) -> None:  # type: ignore[override]
        if self.fails:
            raise RuntimeError
        super().step()


@pytest.fixture
def events(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[float]]:
    """The gradients of each step that is recorded."""
    patches = Patches()
    found: list[float] = []
    tap = steps.Tap(None, lambda: None)

    def event(number: int, parameters: Sequence[torch.Tensor], skipped: bool = False) -> None:
        assert tap.gradients is not None
        found.append(float(parameters[0].grad))  # type: ignore[arg-type]

    monkeypatch.setattr(tap, "event", event)
    records.open_in(str(tmp_path))
    steps.install(patches, tap)
    yield found
    patches.undo()
    losses.forget()


def stepped(optimizer: torch.optim.Optimizer, parameter: torch.Tensor, times: int) -> None:
    for _ in range(times):
        parameter.grad = torch.ones(1)
        optimizer.step()


def test_a_class_with_a_step_of_its_own_steps_once(events: list[float]) -> None:
    weight = torch.nn.Parameter(torch.ones(1))
    stepped(Doubling([weight], lr=0.1), weight, 3)
    assert events == [2.0, 2.0, 2.0]


def test_an_optimizer_that_steps_another_is_one_step(events: list[float]) -> None:
    weight = torch.nn.Parameter(torch.ones(1))
    outer = Outer([weight], lr=0.1)
    outer.inner = Doubling([weight], lr=0.1)  # type: ignore[attr-defined]
    stepped(outer, weight, 2)
    assert events == [2.0, 2.0]


def test_a_step_that_raised_is_over(events: list[float]) -> None:
    weight = torch.nn.Parameter(torch.ones(1))
    optimizer = Failing([weight], lr=0.1)
    with pytest.raises(RuntimeError):
        stepped(optimizer, weight, 1)
    optimizer.fails = False
    stepped(optimizer, weight, 2)
    assert events == [1.0, 1.0]
