"""Step counts of torch's optimizers, with and without an XLA default device (fact 3.28)."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Any

import pytest
import torch
from torch import nn

from xla_migrate import runtime as xla


@pytest.fixture
def default_device(device: torch.device) -> Iterator[torch.device]:
    torch.set_default_device(device)
    yield device
    torch.set_default_device(None)  # type: ignore[arg-type]
    del torch._GLOBAL_DEVICE_CONTEXT.device_context  # else `torch.get_default_device` fails


def _steps(optimizer: torch.optim.Optimizer, model: nn.Module, x: torch.Tensor, n: int = 3) -> int:
    """Take `n` steps; return the number of host reads in them."""
    xla.mark_step()
    before = xla.metrics()["host_reads"] or 0
    for _ in range(n):
        optimizer.zero_grad()
        model(x).pow(2).mean().backward()
        xla.optimizer_step(optimizer)
        xla.mark_step()
    return (xla.metrics()["host_reads"] or 0) - before


class _Own(torch.optim.Adam):
    """A user's class that inherits torch's step."""


MAKERS: dict[str, Callable[[Any], torch.optim.Optimizer]] = {
    "Adam": lambda p: torch.optim.Adam(p),
    "AdamW, one by one": lambda p: torch.optim.AdamW(p, foreach=False),
    "Adamax": lambda p: torch.optim.Adamax(p),
    "NAdam": lambda p: torch.optim.NAdam(p),
    "RAdam": lambda p: torch.optim.RAdam(p),
    "Adagrad": lambda p: torch.optim.Adagrad(p),
    "a class of its own": lambda p: _Own(p, amsgrad=True),
}


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_a_default_device_adds_no_read_to_a_step(
    make: Callable[[Any], torch.optim.Optimizer], default_device: torch.device
) -> None:
    model = nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 2))
    optimizer = make(model.parameters())
    assert (
        _steps(optimizer, model, torch.ones(2, 4), 1) <= 4
    )  # Adagrad's constructor creates its counts
    assert _steps(optimizer, model, torch.ones(2, 4)) == 0
    counts = [state["step"] for state in optimizer.state.values()]
    assert {count.device.type for count in counts} == {"cpu"}
    assert [count.item() for count in counts] == [4.0] * 4


def test_the_steps_are_those_of_a_script_without_a_default_device(device: torch.device) -> None:
    def weights(context: Any) -> torch.Tensor:
        torch.manual_seed(0)
        model = nn.Linear(4, 2).to(device)
        optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
        x = torch.ones(2, 4).to(device)
        with context:
            _steps(optimizer, model, x)
        return model.weight.detach().cpu()

    assert torch.equal(weights(nullcontext()), weights(torch.device(device)))


def test_parameters_that_train_later_have_their_counts_on_the_host(
    default_device: torch.device,
) -> None:
    model = nn.Sequential(nn.Linear(4, 3).requires_grad_(False), nn.Linear(3, 2))
    optimizer = torch.optim.Adam(model.parameters())
    _steps(optimizer, model, torch.ones(2, 4))
    model.requires_grad_(True)
    assert _steps(optimizer, model, torch.ones(2, 4)) == 0
    assert {state["step"].device.type for state in optimizer.state.values()} == {"cpu"}


def test_counts_that_a_checkpoint_brings_to_the_device_are_fetched_once(
    device: torch.device,
) -> None:
    model = nn.Linear(4, 2).to(device)
    x = torch.ones(2, 4).to(device)
    optimizer = torch.optim.AdamW(model.parameters())
    _steps(optimizer, model, x)
    state = optimizer.state_dict()
    for values in state["state"].values():
        values["step"] = values["step"].to(device)
    again = torch.optim.AdamW(model.parameters())
    again.load_state_dict(state)
    assert _steps(again, model, x, 1) == 2
    assert _steps(again, model, x) == 0
    assert {values["step"].item() for values in again.state.values()} == {7.0}


def test_capturable_counts_stay_on_the_device(default_device: torch.device) -> None:
    model = nn.Linear(4, 2)
    optimizer = torch.optim.Adam(model.parameters(), capturable=True)
    assert _steps(optimizer, model, torch.ones(2, 4)) == 0
    assert {state["step"].device.type for state in optimizer.state.values()} == {"xla"}


def test_torch_reads_the_step_counts_of_a_default_device(
    default_device: torch.device, monkeypatch: pytest.MonkeyPatch
) -> None:
    xla.mark_step()  # the patch is applied with the first use of the device
    torchs = inspect.unwrap(torch.optim.Adam._init_group)  # type: ignore[attr-defined]
    monkeypatch.setattr(torch.optim.Adam, "_init_group", torchs)
    model = nn.Linear(4, 2)
    optimizer = torch.optim.Adam(model.parameters())
    assert _steps(optimizer, model, torch.ones(2, 4)) >= 6
