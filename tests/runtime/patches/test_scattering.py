"""`scatter_reduce` and `scatter` on XLA, as `patches.operations.scattering` computes it."""

from __future__ import annotations

import itertools

import pytest
import torch

from xla_migrate.runtime.patches.operations import scattering
from xla_migrate.runtime.patches.operations._kernels import take_back

from .computing import Case, assert_computed_on_the_device, fallbacks

REDUCTIONS = ("sum", "prod", "mean", "amax", "amin")
INDEX = torch.tensor([[0, 0, 2, 3], [1, 0, 2, 2], [0, 1, 3, 3]])


@pytest.fixture
def numbers() -> torch.Tensor:
    return torch.rand(3, 4, generator=torch.Generator().manual_seed(0)) + 0.1


def _case(reduce: str, dim: int, include_self: bool) -> Case:
    def case(x: torch.Tensor) -> torch.Tensor:
        index = (INDEX if dim else INDEX.t()).to(x.device)
        source = x if dim else x.t()
        base = torch.linspace(1, 2, 15).view(3, 5) if dim else torch.linspace(1, 2, 15).view(5, 3)
        return base.to(x.device).scatter_reduce(
            dim, index, source, reduce, include_self=include_self
        )

    return case


CASES = {
    f"{reduce} of dimension {dim}{' with itself' * own}": _case(reduce, dim, own)
    for reduce, dim, own in itertools.product(REDUCTIONS, (0, 1), (False, True))
}


@pytest.mark.parametrize("name", CASES)
def test_they_are_torchs(name: str, numbers: torch.Tensor, device: torch.device) -> None:
    assert_computed_on_the_device(CASES[name], numbers, device, 1e-4)


@pytest.mark.parametrize("reduce", REDUCTIONS)
@pytest.mark.parametrize("include_self", [False, True])
def test_integers_are_torchs(reduce: str, include_self: bool, device: torch.device) -> None:
    base, index = torch.tensor([5, -7, 9, 4]), torch.tensor([0, 0, 1, 1, 1])
    source = torch.tensor([2, -5, -3, -2, -6])
    found = base.to(device).scatter_reduce(
        0, index.to(device), source.to(device), reduce, include_self=include_self
    )
    expected = base.scatter_reduce(0, index, source, reduce, include_self=include_self)
    assert found.tolist() == expected.tolist()


def test_it_is_done_in_place(numbers: torch.Tensor, device: torch.device) -> None:
    index = INDEX[0].to(device)
    x = torch.zeros(5, device=device)
    x.scatter_reduce_(0, index, numbers[0].to(device), "mean", include_self=False)
    expected = torch.zeros(5).scatter_reduce_(0, INDEX[0], numbers[0], "mean", include_self=False)
    torch.testing.assert_close(x.cpu(), expected)


def _filled(device: torch.device) -> list[float]:
    index = torch.tensor([0, 0, 1, 1, 3], device=device)
    found: list[float] = torch.zeros(4, device=device).scatter_(0, index, 2).tolist()
    return found


def test_a_number_is_put_at_more_places_than_there_are_elements(device: torch.device) -> None:
    assert _filled(device) == [2, 2, 0, 2]


def test_torch_xla_refuses_more_places(device: torch.device) -> None:
    take_back(scattering.__name__)
    try:
        with pytest.raises(RuntimeError, match="limit index"):
            _filled(device)
    finally:
        scattering.apply()


def test_torch_xla_has_no_such_kernel(numbers: torch.Tensor, device: torch.device) -> None:
    take_back(scattering.__name__)
    try:
        found = {name for name, case in CASES.items() if fallbacks(case, numbers.to(device))}
    finally:
        scattering.apply()
    with_itself = {n for n in CASES if n.endswith("itself") and not n.startswith("mean")}
    assert found == CASES.keys() - with_itself
