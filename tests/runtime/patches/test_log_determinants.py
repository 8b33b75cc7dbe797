"""Logarithms of determinants, as `patches.linear_algebra.log_determinants` computes them."""

from __future__ import annotations

import pytest
import torch

from xla_migrate.runtime.patches.linear_algebra import log_determinants

from .computing import Case, assert_computed_on_the_device, computed

CASES: dict[str, Case] = {
    "logdet": lambda x: torch.logdet(x @ x.t()),
    "logdet of a method": lambda x: (x @ x.t()).logdet(),
    "slogdet": lambda x: torch.slogdet(x)[1],
    "slogdet of linalg": lambda x: torch.linalg.slogdet(x * 2).logabsdet,
    "slogdet of a keyword": lambda x: torch.linalg.slogdet(A=x * 2).logabsdet,
    "slogdet with the sign": lambda x: x.slogdet().sign * x.slogdet().logabsdet,
}


@pytest.fixture
def matrix() -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    return torch.rand(4, 4, generator=generator) + 3 * torch.eye(4)


@pytest.mark.parametrize("name", CASES)
def test_they_have_gradients(name: str, matrix: torch.Tensor, device: torch.device) -> None:
    assert_computed_on_the_device(CASES[name], matrix, device, 1e-4)


def test_they_have_second_gradients(matrix: torch.Tensor, device: torch.device) -> None:
    def case(x: torch.Tensor) -> torch.Tensor:
        (gradient,) = torch.autograd.grad(torch.logdet(x), x, create_graph=True)
        return gradient.pow(2).sum()

    found, expected = computed(case, matrix.to(device)), computed(case, matrix)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)


def test_negative_determinants_have_no_logarithm(
    matrix: torch.Tensor, device: torch.device
) -> None:
    x = (matrix * torch.tensor([-1.0, 1, 1, 1])).to(device).requires_grad_()
    assert torch.logdet(x).isnan().item()
    assert torch.slogdet(x).sign.item() == -1


def test_torch_xla_has_no_gradient(matrix: torch.Tensor, device: torch.device) -> None:
    stock = torch.logdet.__wrapped__  # type: ignore[attr-defined]
    x = matrix.to(device).requires_grad_()
    with pytest.raises(RuntimeError, match="LU"):
        stock(x).backward()
    assert log_determinants.VERSIONS.met()
