"""Which further runs a comparison calls for."""

from __future__ import annotations

import pytest

from tests.verify.traces import run
from xla_migrate.verify.experiments.proof import _may_be_rounding
from xla_migrate.verify.judge.compare import compare
from xla_migrate.verify.judge.trace import OptimizerStep


def other_gradients(step: OptimizerStep) -> None:
    step.gradients = [1.2, 0.5]


@pytest.mark.parametrize(
    ("losses", "others", "is_rounding"),
    [
        ((1.0, 0.9), (1.05, 0.9), True),
        ((1.0, 0.9), (1.2, 0.9), False),
        ((1e-8, 1e-8), (-2e-8, 1e-8), True),  # its terms cancel
        ((0.02, 0.02), (0.05, 0.02), False),
    ],
)
def test_a_loss_near_zero_is_judged_by_its_gradient(
    losses: tuple[float, ...], others: tuple[float, ...], is_rounding: bool
) -> None:
    found = compare(run(losses), run(others, side="target"))
    assert found.divergence is not None
    assert _may_be_rounding(found) is is_rounding


def test_a_loss_near_zero_with_other_gradients_is_no_rounding() -> None:
    found = compare(run((1e-8,)), run((-2e-8,), side="target", change=other_gradients))
    assert not _may_be_rounding(found)
