"""Each kind of difference is found, named and put down to something."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest

from tests.verify.traces import run
from xla_migrate.verify.judge.divergence import Divergence, first_divergence
from xla_migrate.verify.judge.observed import ObservedRun
from xla_migrate.verify.judge.trace import Optimizer, OptimizerStep, Parameter

ALLOWED = 1e-5


def between(
    reference: ObservedRun, target: ObservedRun, allowed: float = ALLOWED
) -> Divergence | None:
    return first_divergence(reference.traces[0], target.traces[0], allowed)


def found(target: ObservedRun, reference: ObservedRun | None = None) -> Divergence:
    divergence = between(reference or run(), target)
    assert divergence is not None
    return divergence


def at(number: int, spoil: Callable[[OptimizerStep], None]) -> Callable[[OptimizerStep], None]:
    """Spoil step `number` alone."""

    def change(step: OptimizerStep) -> None:
        if step.step == number:
            spoil(step)

    return change


def from_on(number: int, **values: object) -> Callable[[OptimizerStep], None]:
    """Set attributes from step `number` on."""

    def change(step: OptimizerStep) -> None:
        if step.step >= number:
            for name, value in values.items():
                setattr(step, name, value)

    return change


def test_equal_runs_do_not_part() -> None:
    assert between(run(), run(side="target")) is None


def test_rounding_is_no_difference() -> None:
    assert between(run([1.0, 0.9]), run([1.0 + 9e-6, 0.9 - 8e-6])) is None


def test_loss_is_named_with_its_step_and_line() -> None:
    divergence = found(run([1.0, 0.9, 0.8001, 0.7, 0.6, 0.5]))
    assert (divergence.name, divergence.step, divergence.event) == ("loss", 3, 2)
    assert divergence.where == "train.py:18"
    assert (divergence.reference, divergence.target) == (0.8, 0.8001)


def test_loss_of_the_first_step_points_to_the_forward_pass() -> None:
    assert (
        "the batch, the labels or the forward pass"
        in found(run([1.1, 0.9, 0.8, 0.7, 0.6, 0.5])).hint
    )


def test_a_loss_that_is_not_a_number_differs() -> None:
    assert found(run([1.0, math.nan, 0.8, 0.7, 0.6, 0.5])).step == 2


def test_a_loss_that_is_not_there_differs() -> None:
    assert found(run([1.0, None, 0.8, 0.7, 0.6, 0.5])).step == 2


def test_another_number_of_backward_passes_differs_though_the_sum_agrees() -> None:
    divergence = found(run(change=at(2, lambda s: setattr(s, "losses", [0.45, 0.45]))))
    of = "the number of backward passes is 1 in the original, 2 here"
    assert str(divergence) == f"step {divergence.step}: {of}"


def test_gradients_that_are_rounding_in_both_prove_nothing() -> None:
    """Samples that are all alike: the terms of a contrastive loss cancel."""

    def tiny(size: float) -> Callable[[OptimizerStep], None]:
        return lambda s: setattr(s, "gradients", [size * 1e-7, size * 2e-7])

    divergence = found(run(change=tiny(5.0)), run(change=tiny(1.0)))
    assert divergence.name == "gradient that is rounding"
    assert "nothing is proven" in divergence.hint
    assert found(run(change=tiny(0.0)), run()).name == "gradient"


def test_gradient_norm_names_the_tensor_that_differs_most_and_the_ratio() -> None:
    divergence = found(run(change=at(1, lambda s: setattr(s, "gradients", [2.0, 0.5]))))
    assert (divergence.name, divergence.tensor, divergence.step) == ("gradient", "0.weight", 1)
    assert "1.844 times" in divergence.hint
    assert divergence.where == "train.py:20"


def test_gradients_clipped_to_one_norm_differ_by_their_tensors() -> None:
    divergence = found(run(change=at(1, lambda s: setattr(s, "gradients", [0.5, 1.0]))))
    assert (divergence.name, divergence.step) == ("gradient", 1)
    assert "is 1.118 in both, but" in divergence.hint


def test_gradients_of_zero_in_both_are_alike() -> None:
    def zero(step: OptimizerStep) -> None:
        step.gradients = [0.0, 0.0]

    assert between(run(change=zero), run(change=zero)) is None


def test_gradient_norms_may_differ_more_later() -> None:
    change = at(2, lambda s: setattr(s, "gradients", [1.0005, 0.5]))
    assert between(run(), run(change=change)) is None
    assert found(run(change=at(1, lambda s: setattr(s, "gradients", [1.0005, 0.5])))).step == 1


def test_a_missing_gradient_names_its_tensor() -> None:
    def without(step: OptimizerStep) -> None:
        step.with_gradient, step.gradients = [True, False], [1.0]

    divergence = found(run(change=at(1, without)))
    assert (divergence.name, divergence.tensor) == ("gradient", "0.bias")
    assert "stale tensors" in divergence.hint
    assert divergence.where == "train.py:9"  # where the optimizer took its tensors


def test_weights_by_their_norm() -> None:
    divergence = found(run(change=from_on(2, norms=[3.99, 1.0])))
    assert (divergence.name, divergence.tensor, divergence.step) == ("weights", "0.weight", 2)
    assert "optimizer or one of its options" in divergence.hint


def test_weights_by_their_projection() -> None:
    assert found(run(change=from_on(4, projections=[2.02, 0.5]))).step == 4


def test_noise_of_an_adaptive_step_is_no_difference() -> None:
    change = from_on(1, norms=[4.00005, 1.0], projections=[2.0015, 0.5])
    assert between(run(), run(change=change)) is None


def test_fact_4_8_biases_are_not_judged_one_by_one() -> None:
    change = from_on(1, norms=[4.0, 1.3], projections=[2.0, 0.2])
    assert between(run(), run(change=change)) is None


def test_a_tensor_whose_gradient_is_rounding_moves_freely() -> None:
    def tiny(step: OptimizerStep) -> None:
        step.gradients = [1e-9, 0.5]

    def moved(step: OptimizerStep) -> None:
        tiny(step)
        step.norms = [4.4, 1.0]

    assert between(run(change=tiny), run(change=moved)) is None


@pytest.mark.parametrize(
    ("gradients", "others", "name"),
    [
        ([5e-21, 1e-22], [0.0, 0.0], "gradient that is rounding"),
        ([5e-3, 1e-4], [0.0, 0.0], "gradient"),  # a loss that is 0 by itself, and has gradients
    ],
)
def test_the_gradients_of_a_saturated_loss_are_rounding(
    gradients: list[float], others: list[float], name: str
) -> None:
    reference = run([0.0] * 3, change=from_on(1, gradients=gradients))
    assert found(run([0.0] * 3, change=from_on(1, gradients=others)), reference).name == name


def test_weights_that_stand_still() -> None:
    def moves(step: OptimizerStep) -> None:
        step.projections, step.moved = [2.0 + step.step * 0.1, 0.5], [0.1, 0.1]

    divergence = found(run(), run(change=moves))
    assert (divergence.tensor, divergence.step) == ("0.weight", 1)
    assert "does not change" in divergence.hint


def test_initial_weights_come_before_the_first_step() -> None:
    divergence = found(run(initial={0: ([4.1, 1.0], [2.0, 0.5])}))
    assert (divergence.name, divergence.tensor, divergence.event) == (
        "initial weights",
        "0.weight",
        -1,
    )
    assert str(divergence).startswith("before the first step: initial weights of 0.weight")


def test_initial_weights_of_equal_norm_differ_by_projection() -> None:
    assert found(run(initial={0: ([4.0, 1.0], [2.5, 0.5])})).tensor == "0.weight"


def test_initial_weights_that_are_rounding_are_equal() -> None:
    rounding = [run(initial={0: ([size, 1.0], [size, 0.5])}) for size in (6.5e-8, 9.2e-8)]
    assert between(*rounding) is None


def test_another_set_of_parameters_names_the_one_that_is_more() -> None:
    more = [*run().traces[0].parameters[0], Parameter("head.weight", (3, 4))]
    divergence = found(run(parameters={0: more}))
    assert (divergence.name, divergence.tensor) == ("parameters", "head.weight")
    assert (divergence.reference, divergence.target) == (2, 3)
    assert "untied" in divergence.hint
    assert divergence.where == "train.py:9"


def test_an_option_that_differs_is_named_though_no_number_does_yet() -> None:
    divergence = found(run(change=from_on(1, options=[{"lr": 0.1, "weight_decay": 0.0}])))
    assert divergence.name == "option weight_decay"
    assert divergence.where == "train.py:9"  # where the optimizer is built
    assert divergence.hint == "the optimizer's weight_decay is 0.01 in the original, 0 here"
    assert str(divergence).endswith(f"step {divergence.step}: {divergence.hint}")


def test_a_schedule_that_differs_is_named_at_its_step() -> None:
    divergence = found(run(change=from_on(4, options=[{"lr": 0.05, "weight_decay": 0.01}])))
    assert (divergence.name, divergence.step) == ("option lr", 4)


def test_tuples_of_options_are_compared_one_by_one() -> None:
    ours = run(change=from_on(1, options=[{"betas": [0.9, 0.999]}]))
    theirs = run(change=from_on(1, options=[{"betas": [0.9, 0.95]}]))
    assert found(ours, theirs).name == "option betas"


def test_options_of_another_class_only_explain_what_differs() -> None:
    optimizers = {0: Optimizer("Adam", "train.py:9")}
    other = from_on(1, options=[{"lr": 0.1, "weight_decay": 0.0}])
    assert between(run(), run(change=other, optimizers=optimizers)) is None

    def moved(step: OptimizerStep) -> None:
        other(step)
        step.norms = [3.9, 1.0]

    divergence = found(run(change=moved, optimizers=optimizers))
    assert divergence.name == "weights"
    assert "weight_decay is 0.01 in the original, 0 here" in divergence.hint


def test_a_small_error_that_is_always_the_same_is_found_where_each_step_is_followed() -> None:
    def wrong(step: OptimizerStep) -> None:  # half of what one step may be off
        step.norms, step.projections = [4.0 + 2e-5, 1.0], [2.0 + 3e-5, 0.5]

    def chance(step: OptimizerStep) -> None:
        sign = 1 if step.step % 2 else -1
        step.norms, step.projections = [4.0 + sign * 2e-5, 1.0], [2.0 + sign * 3e-5, 0.5]

    still = from_on(1, moved=[5e-4, 5e-4])
    for change in (wrong, chance):
        pair = [run(change=still), run(change=change)]
        traces = [r.traces[0] for r in pair]
        assert first_divergence(*traces, ALLOWED) is None
        found_there = first_divergence(*traces, ALLOWED, followed=True)
        assert (found_there is not None) == (change is wrong)


def test_the_earlier_difference_is_the_first() -> None:
    assert found(run([1.0, 0.95, 0.8, 0.75, 0.6, 0.5])).step == 2
