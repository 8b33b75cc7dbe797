"""Products with `alpha` and `beta`, as `patches.operations.scaled_products` computes them."""

from __future__ import annotations

import warnings

import pytest
import torch
from torch import Tensor

from xla_migrate.runtime.patches.operations import scaled_products

from .computing import Case, assert_computed_on_the_device, fallbacks

CASES: dict[str, Case] = {
    "addmm": lambda x: torch.addmm(x, x, x.t(), alpha=-2),
    "addmm with beta": lambda x: x.addmm(x, x.t(), beta=0.5),
    "addmm of the product alone": lambda x: torch.addmm(
        x.detach() * torch.inf, x, x.t(), beta=0, alpha=3
    ),
    "addmm in place": lambda x: (x * 1).addmm_(x, x.t(), beta=1, alpha=-2),
    "addmm with names": lambda x: torch.addmm(mat2=x.t(), mat1=x, input=x * 2, alpha=-2),
    "addmv": lambda x: torch.addmv(x[0], x, x[1], beta=2, alpha=0.5),
    "addbmm": lambda x: torch.addbmm(x, x.expand(3, 4, 4), x.expand(3, 4, 4), alpha=2),
}


@pytest.fixture
def matrix() -> Tensor:
    return torch.rand(4, 4, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("name", CASES)
def test_products_are_computed_on_the_device(
    name: str, matrix: Tensor, device: torch.device
) -> None:
    assert_computed_on_the_device(CASES[name], matrix, device, 1e-4)


def test_the_old_order_of_arguments_is_accepted(matrix: Tensor, device: torch.device) -> None:
    x = matrix.to(device)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        found = (x * 1).addmm_(1, -2, x, x.t())  # type: ignore[call-overload]
    torch.testing.assert_close(found.cpu(), matrix - 2 * matrix @ matrix.t())


def test_plain_sums_and_the_host_use_torchs(matrix: Tensor, device: torch.device) -> None:
    torch.testing.assert_close(
        torch.addmm(matrix.to(device), matrix.to(device), matrix.to(device)).cpu(),
        torch.addmm(matrix, matrix, matrix),
    )
    assert torch.addmm(matrix, matrix, matrix, alpha=2, out=torch.empty(4, 4)).shape == (4, 4)


def test_torch_xla_computes_the_plain_sum_alone(matrix: Tensor, device: torch.device) -> None:
    stock = torch.addmm.__wrapped__  # type: ignore[attr-defined]
    case: Case = lambda x: stock(x, x, x, alpha=2)  # noqa: E731
    assert fallbacks(case, matrix.to(device)) == ["aten::addmm"]
    assert set(scaled_products.PRODUCTS) == {"addmm", "addmv", "addbmm"}
