"""What differs in float32 and not in float64 is rounding, if errors in every operation do as much."""

from __future__ import annotations

from collections.abc import Callable

from tests.verify.traces import run
from xla_migrate.verify.judge.compare import compare
from xla_migrate.verify.judge.failures import Failure, Fault
from xla_migrate.verify.judge.float64_check import Float64Runs
from xla_migrate.verify.judge.observed import ObservedRun
from xla_migrate.verify.judge.trace import OptimizerStep, PrintedLine

LOSSES = (1.0, 0.9, 0.8, 0.7, 0.6, 0.5)


def off(by: float, at: int = 1) -> tuple[float, ...]:
    return tuple(x + by * (n == at) for n, x in enumerate(LOSSES, 1))


def target(
    losses: tuple[float, ...] = LOSSES, change: Callable[[OptimizerStep], None] | None = None
) -> ObservedRun:
    return run(losses, side="target", change=change)


PARTED = target(off(1e-3))


def test_rounding_that_errors_in_every_operation_exceed_is_proven() -> None:
    exact = Float64Runs(run(), target(off(1e-7)), run(off(4e-3)))
    found = compare(run(), PARTED, followed=(run(), PARTED), exact=exact)
    assert found.proven, str(found)
    assert found.divergence is None
    detail = found.verdicts[1].detail
    assert "0.25 times what errors of 1e-05 in every operation do" in detail
    assert "in independent runs they diverge by 1.0e-03" in detail


def test_a_script_that_computes_the_same_less_precisely_is_not() -> None:
    exact = Float64Runs(run(), target(), run(off(5e-4)))
    found = compare(run(), PARTED, followed=(run(), PARTED), exact=exact)
    assert [v.name for v in found.failed] == ["numbers"]
    assert "2 times what errors" in found.failed[0].detail
    assert found.divergence is not None
    assert str(found.divergence).startswith(
        "step 1: rounding of the loss: 1 in the original, 1.001"
    )
    assert found.divergence.hint.startswith("in float64 they agree")
    assert "the same, but less precisely" in found.failed[0].detail


def test_what_differs_in_float64_is_located_there() -> None:
    exact = Float64Runs(run(), target(off(1e-4, at=3)), run(off(0.1)))
    found = compare(run(), PARTED, followed=(run(), PARTED), exact=exact)
    assert found.divergence is not None
    assert (found.divergence.step, found.divergence.quantity) == (3, "loss")
    assert found.failed[0].detail.startswith("also in float64, step 3: loss")


def test_gradients_have_to_agree_at_every_step_in_float64() -> None:
    def steeper(step: OptimizerStep) -> None:
        if step.step == 4:
            step.gradients = [1.00003, 0.5]

    assert compare(run(), target(change=steeper)).proven  # in float32 it may be rounding
    exact = Float64Runs(run(), target(change=steeper), run(off(0.1)))
    found = compare(run(), PARTED, followed=(run(), PARTED), exact=exact)
    assert found.divergence is not None
    assert (found.divergence.step, found.divergence.quantity) == (4, "gradient")


def test_gradients_of_the_first_step_are_held_to_the_tolerance() -> None:
    def steeper(step: OptimizerStep) -> None:
        if step.step == 1:
            step.gradients = [1.00003, 0.5]

    found = compare(run(), target(change=steeper))
    assert found.divergence is not None
    assert (found.divergence.step, found.divergence.quantity) == (1, "gradient")


def test_other_steps_in_float64_prove_nothing() -> None:
    exact = Float64Runs(run(), target(LOSSES[:4]), run(off(0.1)))
    found = compare(run(), PARTED, followed=(run(), PARTED), exact=exact)
    assert (
        "in float64, the original took 6 optimizer steps, the migrated script 4"
        in found.failed[0].detail
    )


def test_float64_that_could_not_be_run_is_told() -> None:
    broken = target()
    broken.failure = Failure(Fault.SCRIPT, "main.py:3: no float64")
    found = compare(run(), PARTED, followed=(run(), PARTED), exact=Float64Runs(run(), broken))
    detail = found.failed[0].detail
    assert detail.endswith("; in float64 they could not be compared: main.py:3: no float64")
    assert found.divergence is not None


def test_printed_numbers_that_float64_could_not_judge() -> None:
    reference, ours, broken = run(), target(), target()
    reference.traces[0].printed = [PrintedLine("reward 0.0010894", "main.py:1")]
    ours.traces[0].printed = [PrintedLine("reward 0.0010892", "main.py:1")]
    broken.failure = Failure(Fault.SCRIPT, "ended by signal 11")
    found = compare(reference, ours, exact=Float64Runs(run(), broken))
    assert found.failed[0].name == "printed metrics"
    assert found.failed[0].detail.endswith("could not be compared: ended by signal 11")


def test_where_losses_agree_float64_has_nothing_to_say() -> None:
    exact = Float64Runs(run(), target(off(1.0)))
    assert compare(run(), target(), followed=(run(), target()), exact=exact).proven


def test_every_step_counts_alike() -> None:
    everywhere = tuple(x + 1e-4 for x in LOSSES)
    imprecise = target(everywhere)
    one_wild_step = run(tuple(x + (9.0 if n == 0 else 1e-6) for n, x in enumerate(LOSSES)))
    exact = Float64Runs(run(), target(), one_wild_step)
    assert not compare(run(), imprecise, followed=(run(), imprecise), exact=exact).proven


def test_losses_whose_terms_cancel_are_as_large_as_their_gradients() -> None:
    none = (1e-18,) * len(LOSSES)
    parted = target((3e-8,) * len(LOSSES))
    exact = Float64Runs(run(none), target((-2e-17,) * len(LOSSES)), run((2e-6,) * len(LOSSES)))
    found = compare(run(none), parted, followed=(run(none), parted), exact=exact)
    assert found.proven, str(found)
    assert "losses within 1.9e-11 relative" in found.verdicts[1].detail


def test_losses_that_cancel_in_one_run_alone_differ_in_float64() -> None:
    none = (1e-18,) * len(LOSSES)
    parted = target((3e-8,) * len(LOSSES))
    exact = Float64Runs(run(none), target((3e-8,) * len(LOSSES)))
    found = compare(run(none), parted, followed=(run(none), parted), exact=exact)
    assert found.failed[0].detail.startswith("also in float64, step 1: loss")
