"""State dicts by torch's functions, where one process has all shards."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import nn
from torch.distributed.checkpoint.state_dict import StateDictOptions

from xla_migrate import runtime as xla

WHOLE = StateDictOptions(full_state_dict=True)
OFFLOADED = StateDictOptions(full_state_dict=True, cpu_offload=True)
SENT = StateDictOptions(full_state_dict=True, broadcast_from_rank0=True)


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear, self.norm = nn.Linear(3, 2), nn.BatchNorm1d(2)
        self.register_buffer("table", torch.ones(2), persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(self.linear(x)) * self.table


@pytest.fixture
def trained(device: torch.device) -> tuple[Model, torch.optim.Optimizer]:
    model = Model().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    step(model, optimizer)
    return model, optimizer


def step(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    model(torch.randn(4, 3, device=xla.xla_device())).square().sum().backward()
    optimizer.step()
    optimizer.zero_grad()


def on_host(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.detach().cpu().tolist()
    if isinstance(value, dict):  # torch counts steps on the host, and hands that tensor out
        return {key: on_host(item) for key, item in value.items() if key != "step"}
    return [on_host(item) for item in value] if isinstance(value, list | tuple) else value


@pytest.mark.parametrize("options", [WHOLE, OFFLOADED], ids=["whole", "offloaded"])
def test_what_was_gathered_stays_and_can_be_set(
    trained: tuple[Model, torch.optim.Optimizer], options: StateDictOptions
) -> None:
    model, optimizer = trained
    states = xla.get_state_dict(model, optimizer, options=options)
    before = copy.deepcopy(on_host(states))
    assert list(before[0]) == list(model.state_dict())
    assert set(before[1]["state"]) == {name for name, _ in model.named_parameters()}
    step(model, optimizer)
    assert on_host(states) == before
    assert on_host(xla.get_state_dict(model, optimizer, options=options)) != before
    xla.set_state_dict(
        model, optimizer, model_state_dict=states[0], optim_state_dict=states[1], options=SENT
    )
    assert on_host(xla.get_model_state_dict(model, options=options)) == before[0]
    assert on_host(xla.get_optimizer_state_dict(model, optimizer, options=options)) == before[1]


def test_one_by_one_without_options(trained: tuple[Model, torch.optim.Optimizer]) -> None:
    model, optimizer = trained
    states = on_host(xla.get_model_state_dict(model))
    of_optimizer = copy.deepcopy(xla.get_optimizer_state_dict(model, optimizer))
    kept = {name: torch.tensor(value) for name, value in states.items()}
    step(model, optimizer)
    xla.set_model_state_dict(model, kept)
    xla.set_optimizer_state_dict(model, optimizer, of_optimizer, options=SENT)
    assert on_host(xla.get_model_state_dict(model)) == states


def test_what_is_on_meta_is_made(device: torch.device) -> None:
    states = Model().state_dict()
    with torch.device("meta"):
        model = Model()
    parameters = list(model.parameters())
    xla.set_model_state_dict(model, states, options=SENT)
    assert [p.device.type for p in parameters] == [device.type] * len(parameters)
    assert on_host(model.state_dict()) == on_host(states)
    assert model.table.is_meta, "no state dict has it, so that nobody takes it for made"


@pytest.mark.usefixtures("device")
def test_what_is_on_meta_and_has_no_value_is_named() -> None:
    states = Model().state_dict()
    del states["linear.bias"]
    with torch.device("meta"):
        model = Model()
    with pytest.raises(RuntimeError, match=r"linear\.bias: on 'meta'"):
        xla.set_model_state_dict(
            model, states, options=StateDictOptions(full_state_dict=True, strict=False)
        )
