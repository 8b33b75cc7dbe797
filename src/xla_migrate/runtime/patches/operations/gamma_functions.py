"""The gamma function's logarithm and its derivatives are computed on the device: `lgamma`, `digamma`, `polygamma`.

The fault: torch_xla has no kernels for them. Each runs on the CPU, with copies from and to the device, and ends the
graph: in every `log_prob` of Beta, Dirichlet, Gamma, Poisson and Student's t distributions, and in their entropies.

To see it: ``aten::lgamma`` in torch_xla's counters.
It can go when this fails: test_torch_xla_has_no_gamma_functions.

`lgamma` and `digamma` are Lanczos' approximation with the coefficients that XLA's own library uses (chlo, Numerical
Recipes 6.1). The second and third derivatives are the recurrence and the asymptotic series (Abramowitz and Stegun 6.4.11).
Numbers below 1/2 are reflected. Half precision is computed in float32.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from .._versions import Versions
from ._kernels import put

VERSIONS = Versions("torch_xla", "2.9", "2.10")

_G = 7.0
_FIRST = 0.99999999999980993227684700473478
_COEFFICIENTS = (
    676.520368121885098567009190444019,
    -1259.13921672240287047156078755283,
    771.3234287776530788486528258894,
    -176.61502916214059906584551354,
    12.507343278686904814458936853,
    -0.13857109526572011689554707,
    9.984369578019570859563e-6,
    1.50563273514931155834e-7,
)
_SHIFT = 10  # of the recurrence, behind which the series has an error below 1e-12


def apply() -> None:
    """Put kernels below autograd, whose formulas use one for the gradient of the other."""
    kernels: dict[Any, Callable[..., Any]] = {
        torch.ops.aten.lgamma.default: _widened(_lgamma),
        torch.ops.aten.digamma.default: _widened(_digamma),
        torch.ops.aten.polygamma.default: _polygamma,
    }
    put(__name__, kernels, "XLA")


def _widened(compute: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    """Return `compute` for tensors of any type: half precision in float32, integers as torch's default type."""

    @functools.wraps(compute)
    def kernel(x: Tensor) -> Tensor:
        if not x.is_floating_point():
            return compute(x.to(torch.get_default_dtype()))
        wide = x.float() if x.dtype in (torch.bfloat16, torch.float16) else x
        return compute(wide).to(x.dtype)

    return kernel


def _logarithm(z: Tensor) -> Tensor:
    """Return log(z + 7.5)."""
    return math.log(_G + 0.5) + torch.log1p(z / (_G + 0.5))


def _lgamma(x: Tensor) -> Tensor:
    is_small = x < 0.5
    z = torch.where(is_small, -x, x - 1)
    total = sum((c / (z + k) for k, c in enumerate(_COEFFICIENTS, 1)), torch.full_like(z, _FIRST))
    log_t = _logarithm(z)
    found = (z + 0.5 - (z + _G + 0.5) / log_t) * log_t + total.log() + 0.5 * math.log(2 * math.pi)
    fraction = x.abs() - x.abs().floor()
    fraction = torch.where(fraction > 0.5, 1 - fraction, fraction)
    sine = (math.pi * fraction).sin().log()  # infinite at integers
    reflected = torch.where(sine.isfinite(), math.log(math.pi) - sine - found, -sine)
    found = torch.where(is_small, reflected, found)
    return torch.where(x.isinf(), float("inf"), found)


def _digamma(x: Tensor) -> Tensor:
    is_small = x < 0.5
    z = torch.where(is_small, -x, x - 1)
    above, below = torch.zeros_like(z), torch.full_like(z, _FIRST)
    for k, coefficient in enumerate(_COEFFICIENTS, 1):
        above = above - coefficient / (z + k) ** 2
        below = below + coefficient / (z + k)
    found = _logarithm(z) + above / below - _G / (z + _G + 0.5)
    angle = math.pi * (x + (x + 0.5).floor().abs())
    found = torch.where(is_small, found - math.pi * angle.cos() / angle.sin(), found)
    found = torch.where((x < 0) & (x == x.floor()), float("nan"), found)
    at_zero = torch.where(1 / x < 0, float("inf"), -float("inf"))
    return torch.where(x == 0, at_zero, found)


def _polygamma(n: int, x: Tensor) -> Tensor:
    """Return the derivative of order `n` of the digamma function; those above 2 are left to the CPU."""
    if n == 0:
        return torch.digamma(x)
    if n > 2:
        return torch.polygamma(n, x.cpu()).to(x.device)
    return _widened(_second if n == 1 else _third)(x)


def _second(x: Tensor) -> Tensor:
    is_small = x < 0.5
    z = torch.where(is_small, 1 - x, x)
    found = sum(((z + k) ** -2 for k in range(_SHIFT)), torch.zeros_like(z))
    z = z + _SHIFT
    found = found + 1 / z + z**-2 / 2 + z**-3 / 6 - z**-5 / 30 + z**-7 / 42 - z**-9 / 30
    reflected = (math.pi / (math.pi * (x - x.round())).sin()) ** 2 - found
    found = torch.where(is_small, reflected, found)
    return torch.where((x <= 0) & (x == x.floor()), float("inf"), found)


def _third(x: Tensor) -> Tensor:
    is_small = x < 0.5
    z = torch.where(is_small, 1 - x, x)
    found = sum((-2 * (z + k) ** -3 for k in range(_SHIFT)), torch.zeros_like(z))
    z = z + _SHIFT
    found = found - z**-2 - z**-3 - z**-4 / 2 + z**-6 / 6 - z**-8 / 6 + z**-10 * 0.3
    angle = math.pi * (x - x.round())
    reflected = found - 2 * math.pi**3 * angle.cos() / angle.sin() ** 3
    found = torch.where(is_small, reflected, found)
    return torch.where((x <= 0) & (x == x.floor()), -float("inf"), found)
