"""Adaptive softmax on XLA: the same shapes in every step, and torch's losses."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

from xla_migrate import runtime as xla

from .computing import assert_computed_on_the_device, fallbacks_of

TARGETS = torch.tensor([0, 1, 5, 9, 11, 12, 4])


@pytest.fixture
def rows() -> torch.Tensor:
    return torch.rand(7, 8, generator=torch.Generator().manual_seed(0))


@pytest.fixture
def module() -> nn.AdaptiveLogSoftmaxWithLoss:
    torch.manual_seed(0)
    return nn.AdaptiveLogSoftmaxWithLoss(8, 13, [4, 9], div_value=2.0, head_bias=True)


def there(module: nn.Module, x: torch.Tensor) -> nn.Module:
    return copy.deepcopy(module).to(x.device)


def test_it_is_torchs(
    module: nn.AdaptiveLogSoftmaxWithLoss, rows: torch.Tensor, device: torch.device
) -> None:
    def case(x: torch.Tensor) -> torch.Tensor:
        found = there(module, x)(x, TARGETS.to(x.device))
        return torch.cat([found.output, found.loss.view(1)])

    assert_computed_on_the_device(case, rows, device)


def test_one_sample_needs_no_batch(
    module: nn.AdaptiveLogSoftmaxWithLoss, rows: torch.Tensor, device: torch.device
) -> None:
    x, target = rows[0], torch.tensor(10)
    found = there(module, rows.to(device))(x.to(device), target.to(device)).output
    torch.testing.assert_close(found.cpu(), module(x, target).output)


def test_nothing_is_read_and_compiled_for_other_targets(
    module: nn.AdaptiveLogSoftmaxWithLoss, rows: torch.Tensor, device: torch.device
) -> None:
    x = rows.to(device)
    copied = there(module, x)

    def step(targets: torch.Tensor) -> None:
        copied(x, targets.to(device)).loss.backward()
        xla.mark_step()

    for _ in range(3):
        step(TARGETS)
    xla.flush()
    before = xla.metrics()
    step(torch.zeros(7, dtype=torch.long))
    step(TARGETS.flip(0))
    after = xla.metrics()
    assert after["compiles"] == before["compiles"]
    assert after["host_reads"] == before["host_reads"]


def test_a_wrong_target_is_reported_behind_the_step(
    module: nn.AdaptiveLogSoftmaxWithLoss, rows: torch.Tensor, device: torch.device
) -> None:
    kept = there(module, rows.to(device))(rows.to(device), TARGETS.to(device) + 2)
    with pytest.raises(ValueError, match="Target values"):
        xla.flush()
    del kept


def test_shapes_that_do_not_fit_are_refused(
    module: nn.AdaptiveLogSoftmaxWithLoss, rows: torch.Tensor, device: torch.device
) -> None:
    with pytest.raises(RuntimeError, match="same size"):
        there(module, rows.to(device))(rows.to(device), TARGETS[:3].to(device))


def test_torch_selects_rows(
    module: nn.AdaptiveLogSoftmaxWithLoss, rows: torch.Tensor, device: torch.device
) -> None:
    """The fault."""
    stock = nn.AdaptiveLogSoftmaxWithLoss.forward.__wrapped__  # type: ignore[attr-defined]
    x = rows.to(device)
    copied = there(module, x)
    assert "aten::nonzero" in fallbacks_of(lambda: stock(copied, x, TARGETS.to(device)))
