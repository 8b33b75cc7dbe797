"""`xlogy` of a tensor and a Python number, as `patches.operations.xlogy_numbers` computes it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from xla_migrate import runtime as xla
from xla_migrate.runtime.patches.operations import xlogy_numbers
from xla_migrate.runtime.patches.operations._kernels import take_back

CASES: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "function": lambda x: torch.xlogy(x, 0.5),
    "integer": lambda x: torch.xlogy(x, 2),
    "number first": lambda x: torch.xlogy(0.5, x),
    "special": lambda x: torch.special.xlogy(2, x),
    "method": lambda x: x.xlogy(0.5),
    "in place": lambda x: (x * 1.0).xlogy_(0.5),
}


@pytest.mark.parametrize("name", CASES)
def test_it_is_torchs(name: str, device: torch.device) -> None:
    results = []
    for place in (torch.device("cpu"), device):
        x = torch.tensor([0.0, 0.25, 3.0]).to(place).requires_grad_()
        made = CASES[name](x)
        made[1:].sum().backward()
        assert x.grad is not None
        results.append((made.detach().cpu(), x.grad.cpu()))
    torch.testing.assert_close(results[1], results[0], equal_nan=True)


@pytest.mark.parametrize("dtype", [torch.int64, torch.bool, torch.float64, torch.bfloat16])
def test_types_are_torchs(dtype: torch.dtype, device: torch.device) -> None:
    x = torch.tensor([0, 1, 1]).to(dtype)
    for number in (0.5, 2):
        torch.testing.assert_close(torch.xlogy(x.to(device), number).cpu(), torch.xlogy(x, number))


def test_a_changing_number_does_not_compile_again(device: torch.device) -> None:
    x = torch.rand(3).to(device)
    compiled = []
    for number in (0.3, 0.7, 0.9):
        torch.xlogy(x, number)
        xla.mark_step()
        compiled.append(xla.metrics()["compiles"])
    assert compiled[1] == compiled[2]


def test_torch_xla_rejects_numbers(device: torch.device) -> None:
    take_back(xlogy_numbers.__name__)
    try:
        with pytest.raises(RuntimeError, match="Expected XLA tensor"):
            torch.xlogy(torch.ones(2, device=device), 0.5)
    finally:
        xlogy_numbers.apply()
