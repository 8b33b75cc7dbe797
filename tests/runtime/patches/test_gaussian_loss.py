"""`gaussian_nll_loss` on XLA: nothing is read in a step, and negative variances are still reported."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from xla_migrate import runtime as xla

from .computing import assert_computed_on_the_device

CASES: dict[str, dict[str, Any]] = {
    "mean": {},
    "sum": {"reduction": "sum"},
    "each": {"reduction": "none", "full": True},
    "limited": {"eps": 0.5},
}


@pytest.fixture
def numbers() -> torch.Tensor:
    return torch.rand(4, 6, generator=torch.Generator().manual_seed(0)) + 0.1


def reads() -> int:
    return xla.metrics()["host_reads"] or 0


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("variances", ["one each", "one per row", "a column"])
def test_it_is_torchs(
    name: str, variances: str, numbers: torch.Tensor, device: torch.device
) -> None:
    def case(x: torch.Tensor) -> torch.Tensor:
        chosen = {"one each": x.flip(0), "one per row": x[:, 0], "a column": x[:, :1]}[variances]
        return F.gaussian_nll_loss(x, x.detach() * 2, chosen, **CASES[name])

    assert_computed_on_the_device(case, numbers, device)


def test_nothing_is_read(numbers: torch.Tensor, device: torch.device) -> None:
    x = numbers.to(device)
    xla.mark_step()
    before = reads()
    kept = nn.GaussianNLLLoss()(x, x * 2, x)
    assert reads() == before
    xla.flush()
    assert kept.item() == pytest.approx(nn.GaussianNLLLoss()(numbers, numbers * 2, numbers).item())


def test_a_negative_variance_is_reported_behind_the_step(
    numbers: torch.Tensor, device: torch.device
) -> None:
    x = numbers.to(device)
    kept = F.gaussian_nll_loss(x, x, -x)
    with pytest.raises(ValueError, match="negative"):
        xla.flush()
    del kept


@pytest.mark.parametrize("wrong", [{"reduction": "most"}, {"var": torch.ones(3)}, {"var": -1.0}])
def test_wrong_arguments_are_refused_at_once(
    wrong: dict[str, Any], numbers: torch.Tensor, device: torch.device
) -> None:
    x = numbers.to(device)
    variance = wrong.pop("var", x)
    variance = variance.to(device) if isinstance(variance, torch.Tensor) else variance
    with pytest.raises(ValueError, match=r"var|valid"):
        F.gaussian_nll_loss(x, x, variance, **wrong)
    xla.flush()


def test_a_number_is_a_variance(numbers: torch.Tensor, device: torch.device) -> None:
    found = F.gaussian_nll_loss(numbers.to(device), numbers.to(device) * 2, 0.5)
    assert found.item() == pytest.approx(F.gaussian_nll_loss(numbers, numbers * 2, 0.5).item())


def test_torch_reads_the_variances(numbers: torch.Tensor, device: torch.device) -> None:
    """The fault."""
    x = numbers.to(device)
    xla.mark_step()
    before = reads()
    F.gaussian_nll_loss.__wrapped__(x, x, x)  # type: ignore[attr-defined]
    assert reads() > before
