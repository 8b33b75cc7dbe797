"""Operands of equal shapes, and those whose result has to be worked out."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import _meta_registrations as registrations

from xla_migrate import runtime as xla
from xla_migrate.runtime.patches import equal_shapes


@pytest.fixture
def asked(device: torch.device, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The operands whose common shape was worked out."""
    seen: list[Any] = []
    broadcast = registrations._broadcast_shapes

    def counted(*shapes: Any) -> Any:
        seen.append(shapes)
        return broadcast(*shapes)

    monkeypatch.setattr(registrations, "_broadcast_shapes", counted)
    return seen


def sgd(device: torch.device) -> torch.Tensor:
    x, y = torch.ones(2, 3).to(device), torch.full((2, 3), 2.0).to(device)
    x.mul_(0.5).add_(y, alpha=-0.25)
    return x


def test_torch_works_out_the_shapes_of_equal_operands(
    device: torch.device, asked: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registrations, "check_inplace_broadcast", equal_shapes._check)
    sgd(device)
    assert len(asked) == 2


def test_equal_shapes_and_numbers_fit(device: torch.device, asked: list[Any]) -> None:
    assert sgd(device).tolist() == [[0.0] * 3] * 2
    assert asked == []


def test_other_shapes_are_asked(device: torch.device, asked: list[Any]) -> None:
    x = torch.ones(2, 3).to(device)
    x.add_(torch.arange(3.0).to(device))
    assert x.tolist() == [[1.0, 2.0, 3.0]] * 2
    assert len(asked) == 1
    for wrong in (torch.ones(2), torch.ones(4, 2, 3)):
        with pytest.raises(RuntimeError):
            x.add_(wrong.to(device))
    xla.mark_step()
    assert x.tolist() == [[1.0, 2.0, 3.0]] * 2


@pytest.fixture
def worked_out(device: torch.device, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The operands whose result was worked out in Python."""
    seen: list[Any] = []
    meta = registrations._prim_elementwise_meta

    def counted(*args: Any, **kwargs: Any) -> Any:
        seen.append(args)
        return meta(*args, **kwargs)

    monkeypatch.setattr(registrations, "_prim_elementwise_meta", counted)
    return seen


def adam(device: torch.device) -> torch.Tensor:
    x, y, z = (torch.full((2, 3), n).to(device) for n in (1.0, 2.0, 4.0))
    return x.lerp_(y, 0.5).addcmul_(y, z, value=0.25).addcdiv_(y, z, value=-1.0)


def test_torch_works_out_the_results_of_equal_operands(
    device: torch.device, worked_out: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registrations, "elementwise_meta", equal_shapes._elementwise)
    assert adam(device).tolist() == [[3.0] * 3] * 2
    assert len(worked_out) == 3


def test_equal_operands_have_a_result_like_the_first(
    device: torch.device, worked_out: list[Any]
) -> None:
    assert adam(device).tolist() == [[3.0] * 3] * 2
    assert worked_out == []


@pytest.mark.parametrize(
    "other",
    [
        torch.arange(3.0),
        torch.tensor(2.0),
        torch.arange(6.0).reshape(3, 2).t(),
        torch.ones(2, 3, dtype=torch.float64),
        torch.arange(6).reshape(2, 3),
    ],
    ids=["broadcast", "number", "transposed", "other type", "integers"],
)
def test_results_of_other_operands_are_those_of_the_host(
    device: torch.device, worked_out: list[Any], other: torch.Tensor
) -> None:
    x = torch.full((2, 3), 2.0)
    expected = torch.addcmul(x, other, other)
    found = torch.addcmul(x.to(device), other.to(device), other.to(device))
    assert found.dtype == expected.dtype
    assert found.cpu().tolist() == expected.tolist()
