"""The gamma function's logarithm and its derivatives, as `patches.operations.gamma_functions` computes them."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import distributions as D

from xla_migrate.runtime.patches.operations import gamma_functions
from xla_migrate.runtime.patches.operations._kernels import take_back

from .computing import Case, assert_computed_on_the_device, fallbacks, fallbacks_of

Function = Callable[[torch.Tensor], torch.Tensor]
FUNCTIONS: dict[str, Function] = {
    "lgamma": torch.lgamma,
    "digamma": torch.digamma,
    "polygamma of order 0": lambda x: torch.polygamma(0, x),
    "polygamma of order 1": lambda x: torch.polygamma(1, x),
    "polygamma of order 2": lambda x: torch.polygamma(2, x),
}
# Those of distributions, of numbers between 0.1 and 4.1.
CASES: dict[str, Case] = {
    "beta": lambda x: D.Beta(x, x.flip(0)).log_prob(torch.full_like(x, 0.3)),
    "dirichlet": lambda x: D.Dirichlet(x).entropy(),
    "gamma": lambda x: D.kl_divergence(D.Gamma(x, x + 1), D.Gamma(x.flip(0), x)),
    "poisson": lambda x: D.Poisson(x).log_prob(torch.full_like(x, 3)),
    "student": lambda x: D.StudentT(x).log_prob(x),
    "the log of the multivariate gamma function": lambda x: torch.mvlgamma(x + 2, 3),
}


@pytest.fixture
def numbers() -> torch.Tensor:
    return torch.rand(5, 7, generator=torch.Generator().manual_seed(0)) * 4 + 0.1


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_they_are_torchs(name: str, dtype: torch.dtype, device: torch.device) -> None:
    x = torch.cat([torch.linspace(0.01, 30, 3000), torch.linspace(-6.99, -0.01, 999)]).to(dtype)
    expected = FUNCTIONS[name](x.double())
    found = FUNCTIONS[name](x.to(device)).cpu().double()
    tolerance = 1e-9 if dtype is torch.float64 else 5e-6
    torch.testing.assert_close(found, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", ["lgamma", "digamma"])
def test_limits_are_torchs(name: str, device: torch.device) -> None:
    x = torch.tensor([0.0, -0.0, -1.0, -3.0, math.inf, math.nan, 1.0, 2.0, 1e6, 1e-6])
    found = FUNCTIONS[name](x.to(device)).cpu()
    torch.testing.assert_close(found, FUNCTIONS[name](x), equal_nan=True, atol=1e-5, rtol=1e-5)


def test_higher_orders_are_left_to_the_cpu(numbers: torch.Tensor, device: torch.device) -> None:
    found = torch.polygamma(3, numbers.to(device)).cpu()
    torch.testing.assert_close(found, torch.polygamma(3, numbers))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_half_precision_is_computed_in_float32(name: str, device: torch.device) -> None:
    x = torch.linspace(0.5, 8, 40).bfloat16()
    found = FUNCTIONS[name](x.to(device)).cpu()
    torch.testing.assert_close(found, FUNCTIONS[name](x.float()).bfloat16(), rtol=1e-2, atol=1e-3)


def test_integers_have_logarithms(device: torch.device) -> None:
    found = torch.lgamma(torch.tensor([1, 3, 5], device=device)).cpu()
    torch.testing.assert_close(found, torch.lgamma(torch.tensor([1, 3, 5])))


@pytest.mark.parametrize("name", CASES)
def test_distributions_are_computed_on_the_device(
    name: str, numbers: torch.Tensor, device: torch.device
) -> None:
    assert_computed_on_the_device(CASES[name], numbers, device, 2e-4)


def test_torch_xla_has_no_gamma_functions(numbers: torch.Tensor, device: torch.device) -> None:
    take_back(gamma_functions.__name__)
    try:
        found = {
            name for f in FUNCTIONS.values() for name in fallbacks_of(_run(f, numbers, device))
        }
    finally:
        gamma_functions.apply()
    assert found == {"aten::lgamma", "aten::digamma", "aten::polygamma"}
    assert fallbacks(torch.lgamma, numbers.to(device)) == []


def _run(function: Function, x: torch.Tensor, device: torch.device) -> Callable[[], object]:
    return lambda: function(x.to(device)).cpu()
