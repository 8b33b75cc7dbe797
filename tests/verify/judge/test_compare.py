"""Two runs, judged: numbers, course, bf16, metrics; and what cannot be judged is not proven."""

from __future__ import annotations

import pytest

from tests.verify.traces import run, trace
from xla_migrate.verify.judge.compare import Comparison, compare
from xla_migrate.verify.judge.failures import Failure, Fault
from xla_migrate.verify.judge.observed import ObservedRun
from xla_migrate.verify.judge.trace import OptimizerStep

LOSSES = [1.0, 0.9, 0.8, 0.7, 0.6, 0.5]


def target(losses: list[float | None] | list[float] = LOSSES, **changes: object) -> ObservedRun:
    return run(losses, side="target", **changes)  # type: ignore[arg-type]


def status(comparison: Comparison, name: str) -> str:
    return next(v.status for v in comparison.verdicts if v.name == name)


def test_equal_runs_are_proven() -> None:
    comparison = compare(run(), target())
    assert comparison.proven
    assert str(comparison) == "proven: 6 steps alike"
    assert {v.status for v in comparison.verdicts} == {"ok"}
    assert [row.difference for row in comparison.rows] == [0.0] * 6


def test_a_difference_is_not_proven_and_told() -> None:
    comparison = compare(run(), target([1.0, 0.9, 0.81, 0.7, 0.6, 0.5]))
    assert not comparison.proven
    assert comparison.could_run
    assert comparison.divergence is not None
    assert str(comparison).startswith("differs: numbers: step 3: loss: 0.8 in the original, 0.81")


def test_tolerance_is_the_users() -> None:
    other = target([1.0, 0.9, 0.801, 0.7, 0.6, 0.5])
    assert compare(run(), other, tolerance=0.01).proven
    assert not compare(run(), other, tolerance=1e-4).proven


@pytest.mark.parametrize(("failing", "name"), [(0, "original"), (1, "migrated script")])
def test_a_run_that_failed_proves_nothing(failing: int, name: str) -> None:
    runs = [run(), target()]
    runs[failing].failure = Failure(Fault.SCRIPT, "train.py:3: ValueError: no")
    comparison = compare(*runs)
    assert not comparison.could_run
    assert not comparison.proven
    assert str(comparison) == f"could not run the {name}: train.py:3: ValueError: no"


def test_no_step_is_no_proof() -> None:
    empty = run([])
    empty.traces = [trace([])]
    other = run([], side="target")
    assert not compare(empty, other, judge_performance=False).proven


def test_no_loss_and_no_gradient_is_no_proof() -> None:
    def without_gradients(made: ObservedRun) -> ObservedRun:
        for step in made.traces[0].steps:
            step.gradients = []
        return made

    comparison = compare(without_gradients(run([None] * 6)), without_gradients(target([None] * 6)))
    assert status(comparison, "numbers") == "failed"


def test_gradients_prove_what_trains_without_backward() -> None:
    comparison = compare(run([None] * 6), target([None] * 6))
    assert comparison.proven
    assert "no losses" in next(v.detail for v in comparison.verdicts if v.name == "numbers")
    other = target([None] * 6)
    other.traces[0].steps[3].gradients = [1.1, 0.5]
    assert status(compare(run([None] * 6), other), "numbers") == "failed"
    assert status(compare(run(), target([None] * 6)), "numbers") == "failed"


def test_fewer_steps_are_another_course() -> None:
    comparison = compare(run(), target(LOSSES[:5]))
    assert status(comparison, "same steps") == "failed"


def test_another_number_of_processes_is_another_course() -> None:
    more = target()
    more.traces.append(more.traces[0])
    assert "1 processes trained in the original, 2" in str(compare(run(), more))


def test_steps_of_other_optimizers_are_another_course() -> None:
    def swapped(step: OptimizerStep) -> None:
        step.optimizer = 1 if step.step == 4 else 0

    verdict = compare(run(), target(change=swapped)).verdicts[0]
    assert verdict.detail == "step 4 is optimizer 0's in the original, 1's here"


def test_a_step_that_a_scaler_skipped_is_told_as_such() -> None:
    def skipped(step: OptimizerStep) -> None:
        step.skipped = step.step == 1

    verdict = compare(run(change=skipped), target()).verdicts[0]
    assert "the original's loss scaler skipped it" in verdict.detail


def test_every_process_is_compared() -> None:
    reference, other = run(), target()
    reference.traces.append(run().traces[0])
    other.traces.append(target([1.0, 0.9, 0.8, 0.7, 0.6, 0.51]).traces[0])
    comparison = compare(reference, other)
    assert comparison.divergence is not None
    assert comparison.divergence.step == 6


# bf16: R = |target - fp32| / |bf16 - fp32|

BF16 = [1.0, 0.91, 0.79, 0.71, 0.6, 0.5]


@pytest.mark.parametrize(
    ("losses", "r", "ok"),
    [
        (BF16, 1.0, True),
        (LOSSES, 0.0, True),
        ([1.0, 0.89, 0.81, 0.69, 0.6, 0.5], 1.0, True),
        ([1.0, 0.9115, 0.7885, 0.7115, 0.6, 0.5], 1.15, True),
        ([1.0, 0.925, 0.775, 0.725, 0.6, 0.5], 2.5, False),
        ([1.0, float("nan"), 0.79, 0.71, 0.6, 0.5], None, False),
    ],
)
def test_bf16_criterion(losses: list[float], r: float | None, ok: bool) -> None:
    comparison = compare(run(BF16), target(losses), fp32=run(LOSSES))
    assert comparison.proven == ok
    if r is not None:
        assert comparison.r == pytest.approx(r)


def test_a_reference_that_is_as_precise_as_float32_has_no_r() -> None:
    comparison = compare(run(LOSSES), target(BF16), fp32=run(LOSSES))
    assert status(comparison, "bf16") == "failed"
    assert comparison.r is None
    assert compare(run(LOSSES), target(LOSSES), fp32=run(LOSSES)).proven


# metrics

PATTERN = r"accuracy (\S+)"


def printing(made: ObservedRun, *values: str) -> ObservedRun:
    made.output = "".join(f"epoch: accuracy {value}\n" for value in values)
    return made


@pytest.mark.parametrize(
    ("ours", "theirs", "ok"),
    [
        (["91.2", "93.5"], ["91.2", "93.5"], True),
        (["91.2", "93.5"], ["91.2", "93.58"], True),
        (["91.2", "93.5"], ["91.2", "93.6"], False),
        (["91.2", "93.5"], ["91.2"], False),
        ([], ["91.2"], False),
        (["0.0"], ["0.0"], True),
        (["nan"], ["93.0"], False),
    ],
)
def test_metrics_agree_to_a_thousandth(ours: list[str], theirs: list[str], ok: bool) -> None:
    comparison = compare(printing(run(), *ours), printing(target(), *theirs), metric=PATTERN)
    assert (status(comparison, "metric") == "ok") == ok
    assert comparison.proven == ok


def test_a_metric_without_a_group_is_the_whole_match() -> None:
    pair = printing(run(), "91.2"), printing(target(), "91.2")
    assert status(compare(*pair, metric=r"\d+\.\d+"), "metric") == "ok"


def test_a_metric_that_is_no_number_is_told() -> None:
    pair = printing(run(), "high"), printing(target(), "high")
    comparison = compare(*pair, metric=PATTERN)
    assert status(comparison, "metric") == "failed"
    assert "'high' is not a number" in str(comparison)


AMPLIFIED = [1.0, 0.9, 0.8, 0.7001, 0.61, 0.55]


def test_what_training_amplifies_is_compared_from_the_originals_weights() -> None:
    other = target(AMPLIFIED)
    assert not compare(run(), other).proven
    comparison = compare(run(), other, followed=(run(), target()))
    assert comparison.proven
    (numbers,) = [v for v in comparison.verdicts if v.name == "numbers"]
    assert (
        "in independent runs they diverge by 1.0e-01: this training amplifies rounding"
        in numbers.detail
    )


def test_what_differs_from_the_originals_weights_too_is_a_difference() -> None:
    comparison = compare(
        run(), target(AMPLIFIED), followed=(run(), target([1, 0.9, 0.8, 0.7, 0.6001, 0.5]))
    )
    assert not comparison.proven
    assert comparison.divergence is not None
    assert comparison.divergence.step == 5
    assert "also from the original's own weights, step 5: loss" in str(comparison)


def test_runs_that_followed_on_another_course_prove_nothing() -> None:
    comparison = compare(run(), target(AMPLIFIED), followed=(run(), target(LOSSES[:3])))
    assert "from the original's weights, the original took 6" in str(comparison)


def test_performance_can_be_left_out() -> None:
    slow = target(change=lambda s: s.counts.update(compiles=1))
    assert not compare(run(), slow).proven
    assert compare(run(), slow, judge_performance=False).proven


def test_tensors_are_listed_with_their_largest_differences_the_worst_first() -> None:
    def other(step: OptimizerStep) -> None:
        if step.step == 3:
            step.gradients = [1.0, 0.6]
            step.norms = [4.04, 1.0]

    bias, weight = compare(run(), target(change=other)).tensors
    assert (bias.name, bias.weights) == ("0.bias", None)
    assert bias.gradient == pytest.approx(0.1 / 1.25**0.5)
    assert (weight.name, weight.gradient) == ("0.weight", 0.0)
    assert weight.weights == pytest.approx(0.01)
