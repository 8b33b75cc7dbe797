"""R of the bf16 criterion: over everything recorded, robust to the chance of a few losses."""

from __future__ import annotations

import math
import random

import pytest

from tests.verify.traces import run
from xla_migrate.verify.judge.bf16 import ratios
from xla_migrate.verify.judge.observed import ObservedRun
from xla_migrate.verify.judge.trace import OptimizerStep, Parameter

TENSORS = [Parameter(f"{i}.weight", (4, 4)) for i in range(40)]


def noisy(seed: int, size: float, steps: int = 12, losses: float | None = None) -> ObservedRun:
    """A run whose every quantity is off by Gaussian noise of this size; that of its losses apart."""
    chance = random.Random(seed)

    def off(scale: float) -> float:
        return scale * size * chance.gauss(0, 1)

    def change(step: OptimizerStep) -> None:
        step.with_gradient = [True] * len(TENSORS)
        step.gradients = [10.0**-i * (1 + off(1)) for i in range(len(TENSORS))]
        step.norms = [1.0] * len(TENSORS)
        step.projections = [1 + off(1) for _ in TENSORS]

    of_losses = size if losses is None else losses
    values = [2 - n / 100 + of_losses * chance.gauss(0, 1) for n in range(steps)]
    return run(values, change=change, parameters={0: TENSORS})


EXACT = noisy(0, 0.0)


@pytest.mark.parametrize("factor", [0.5, 1.0, 1.5, 3.0])
def test_r_is_how_much_larger_the_errors_are(factor: float) -> None:
    found = ratios((EXACT, noisy(1, 1e-3), noisy(2, factor * 1e-3)))
    assert found is not None
    assert found.r == pytest.approx(factor, rel=0.1)
    assert found.quantities == 81


def test_equally_precise_runs_pass_and_worse_ones_do_not() -> None:
    equal = [ratios((EXACT, noisy(2 * i, 1e-3), noisy(2 * i + 1, 1e-3))) for i in range(1, 60)]
    worse = [ratios((EXACT, noisy(2 * i, 1e-3), noisy(2 * i + 1, 1.8e-3))) for i in range(1, 60)]
    assert all(found is not None and found.r <= 1.2 for found in equal)
    assert all(found is not None and not found.within for found in worse)


def test_more_trainings_leave_less_to_chance() -> None:
    def training(seed: int, factor: float) -> tuple[ObservedRun, ObservedRun, ObservedRun]:
        return EXACT, noisy(2 * seed, 1e-3), noisy(2 * seed + 1, factor * 1e-3)

    one = ratios(training(1, 1.4))
    three = ratios(training(1, 1.0), training(2, 1.0), training(3, 1.0))
    assert one is not None
    assert three is not None
    assert (three.quantities, three.count) == (3 * one.quantities, 3 * one.count)
    assert abs(three.r - 1) < 0.1
    assert three.within
    assert not one.within
    assert (one.limit, three.limit) == (1.2, pytest.approx(1.2 * (1 + 1 / three.quantities**0.5)))


def test_losses_alone_would_fail_equally_precise_runs_one_time_in_four() -> None:
    equal = [ratios((EXACT, noisy(2 * i, 1e-3), noisy(2 * i + 1, 1e-3))) for i in range(1, 200)]
    alone = [found.of_losses for found in equal if found is not None]
    assert sum(r > 1.2 for r in alone) / len(alone) > 0.15
    limit = equal[0].limit_of_losses if equal[0] else 0
    assert limit == pytest.approx(1.893, abs=1e-3)
    assert sum(r > limit for r in alone) / len(alone) < 0.06


def test_more_trainings_allow_the_losses_as_much_as_one() -> None:
    """The losses of a ViT erred by the same amounts at the same steps in five trainings."""
    training = (EXACT, noisy(1, 1e-3), noisy(2, 1e-3))
    one, three = ratios(training), ratios(training, training, training)
    assert one is not None
    assert three is not None
    assert three.limit_of_losses == pytest.approx(one.limit_of_losses)
    assert three.of_losses == pytest.approx(one.of_losses)


def test_a_loss_that_errs_more_than_the_rest_is_seen() -> None:
    found = ratios((EXACT, noisy(1, 1e-3), noisy(2, 1e-3, losses=1e-2)))
    assert found is not None
    assert found.r < 1.2
    assert found.of_losses > found.limit_of_losses


def test_one_quantity_alone_is_the_plain_ratio() -> None:
    losses = [1.0, 0.9, 0.8]
    found = ratios((run(losses), run([1.0, 0.91, 0.79]), run([1.0, 0.93, 0.77])))
    assert found is not None
    assert found.of_losses == pytest.approx(3.0)


def test_one_quantity_that_is_not_a_number_is_enough() -> None:
    found = ratios((EXACT, noisy(1, 1e-3), run([math.nan] * 12, parameters={0: TENSORS})))
    assert found is not None
    assert not found.r <= 1.2


def test_a_reference_of_float32_precision_has_no_ratio() -> None:
    found = ratios((EXACT, EXACT, noisy(1, 1e-3)))
    assert found is not None
    assert found.as_precise
    assert not found.alike
    same = ratios((EXACT, EXACT, EXACT))
    assert same is not None
    assert same.alike


def test_without_losses_there_is_nothing_to_say() -> None:
    assert ratios((run([None]), run([None]), run([None]))) is None
