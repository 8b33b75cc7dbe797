"""Which further runs a comparison calls for."""

from __future__ import annotations

import pytest

from tests.verify.traces import run
from xla_migrate.verify.experiments.proof import _is_certain, _may_be_rounding
from xla_migrate.verify.judge.compare import compare
from xla_migrate.verify.judge.details import Details, Drawn, Field
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


def batch(*rows: float) -> Details:
    return Details({(0, 0): [Field("0", (len(rows),), rows)]}, {(0, 0): Drawn(0, 1, 0)})


def one_more_step(step: OptimizerStep) -> None:
    step.losses, step.backwards = [], []


def test_other_data_and_other_steps_are_no_rounding() -> None:
    reference = run((1.0, 0.9), details=batch(1.0, 2.0))
    rounded = compare(reference, run((1.001, 0.9), side="target", details=batch(1.0, 2.0)))
    other_data = compare(reference, run((1.001, 0.9), side="target", details=batch(2.0, 1.0)))
    other_steps = compare(reference, run((1.0, 0.9), side="target", change=one_more_step))
    assert [_is_certain(found) for found in (rounded, other_data, other_steps)] == [
        False,
        True,
        True,
    ]


def test_a_loss_near_zero_with_other_gradients_is_no_rounding() -> None:
    found = compare(run((1e-8,)), run((-2e-8,), side="target", change=other_gradients))
    assert not _may_be_rounding(found)
