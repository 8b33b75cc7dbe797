"""Reductions over an empty list of dimensions, as `patches.operations.empty_dims` computes them."""

from __future__ import annotations

import pytest
import torch

from xla_migrate.runtime.patches.operations import empty_dims
from xla_migrate.runtime.patches.operations._kernels import take_back

from .computing import Case, assert_computed_on_the_device

CASES: dict[str, Case] = {
    "amax": lambda x: x.amax(),
    "amin": lambda x: x * torch.amin(x),
    "amax of nothing named": lambda x: x * x.amax(()),
    "amax with its dimensions": lambda x: x.amax(keepdim=True),
    "amax of one": lambda x: x.amax(1),
    "sum": lambda x: x.sum([]),
    "mean": lambda x: x.mean([], keepdim=True),
    "std": lambda x: x.std([]),
    "var": lambda x: x.var([]),
    "norm": lambda x: torch.linalg.vector_norm(x, dim=()),
    "nansum": lambda x: x.nansum([]),
}


@pytest.mark.parametrize("name", CASES)
def test_all_dimensions_are_reduced(name: str, device: torch.device) -> None:
    x = torch.rand(3, 4, generator=torch.Generator().manual_seed(0))
    assert_computed_on_the_device(CASES[name], x, device)


def test_torch_xla_reduces_no_dimension(device: torch.device) -> None:
    take_back(empty_dims.__name__)
    try:
        assert torch.rand(3, 4, device=device).amax().shape == (3, 4)
    finally:
        empty_dims.apply()
