"""Assignments of a number under a mask: torch's values and gradients, computed on the device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import distributions

from xla_migrate import runtime as xla
from xla_migrate.runtime.patches.operations import masked_assignments
from xla_migrate.runtime.patches.operations._kernels import take_back

from .computing import Case, assert_computed_on_the_device, fallbacks


def _assigning(assign: Callable[[torch.Tensor], None]) -> Case:
    def case(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        assign(y)
        return y * x

    return case


def _number(y: torch.Tensor) -> None:
    y[y > 1] = 0.5


def _infinity(y: torch.Tensor) -> None:
    y[y > 1] = float("inf")
    y[y == float("inf")] = -1


def _rows(y: torch.Tensor) -> None:
    y[y[:, 0] > 1] = 0.5


def _columns(y: torch.Tensor) -> None:
    y[:, y[0] > 1] = 0.5


def _tensor(y: torch.Tensor) -> None:
    y[y > 1] = y.detach().amax()


CASES = {each.__name__.strip("_"): each for each in (_number, _infinity, _rows, _columns, _tensor)}


@pytest.fixture
def numbers() -> torch.Tensor:
    return torch.rand(4, 6, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("name", CASES)
def test_it_is_torchs(name: str, numbers: torch.Tensor, device: torch.device) -> None:
    assert_computed_on_the_device(_assigning(CASES[name]), numbers, device)


def test_a_number_is_converted_to_the_type_of_the_tensor(device: torch.device) -> None:
    x = torch.arange(6, device=device)
    x[x > 3] = 2.7
    x[x < 2] = True
    assert x.tolist() == [1, 1, 2, 3, 2, 2]


def test_other_indices_assign_as_before(device: torch.device) -> None:
    x = torch.zeros(2, 3, device=device)
    x[torch.tensor([1], device=device)] = 5
    x[x > 3] = torch.tensor([1.0, 2.0, 3.0], device=device)
    x[torch.tensor([True, False], device=device), torch.tensor([2], device=device)] = 7
    assert x.tolist() == [[0, 0, 7], [1, 2, 3]]


def test_the_divergence_of_categorical_distributions_reads_nothing(
    numbers: torch.Tensor, device: torch.device
) -> None:
    def case(x: torch.Tensor) -> torch.Tensor:
        one, other = distributions.Categorical(logits=x), distributions.Categorical(logits=x * 2)
        return distributions.kl_divergence(one, other)

    assert "aten::nonzero" not in fallbacks(case, numbers.to(device))


@pytest.mark.parametrize("kind", [torch.optim.Rprop, torch.optim.Muon])
def test_optimizers_read_nothing(kind: Callable[..., Any], device: torch.device) -> None:
    """The rule about slow optimizers (XLA307) does not report these: torch_xla alone reads in each step."""
    model = torch.nn.Linear(4, 3, bias=False).to(device)
    optimizer = kind(model.parameters(), lr=0.01)

    def step() -> None:
        optimizer.zero_grad()
        model(torch.ones(2, 4, device=device)).square().mean().backward()
        xla.optimizer_step(optimizer)
        xla.mark_step()

    for _ in range(3):
        step()
    xla.flush()
    before = xla.metrics()
    for _ in range(3):
        step()
    after = xla.metrics()
    assert after["host_reads"] == before["host_reads"]
    assert after["compiles"] == before["compiles"]


def test_torch_xla_reads_a_mask_that_assigns(numbers: torch.Tensor, device: torch.device) -> None:
    take_back(masked_assignments.__name__)
    try:
        found = {n for n, each in CASES.items() if fallbacks(_assigning(each), numbers.to(device))}
    finally:
        masked_assignments.apply()
    assert found == CASES.keys()
