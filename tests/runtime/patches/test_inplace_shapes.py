"""In-place operations: the shapes that fit, and those that do not."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import _meta_registrations as registrations

from xla_migrate import runtime as xla
from xla_migrate.runtime.patches import inplace_shapes


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
    monkeypatch.setattr(registrations, "check_inplace_broadcast", inplace_shapes._check)
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
