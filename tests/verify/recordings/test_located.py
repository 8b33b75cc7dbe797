"""What is blamed if all modules of a step agree and its loss does not: the code that computes the loss."""

from __future__ import annotations

import pytest

from xla_migrate.verify.judge.details import Details, ModuleCall, ModuleCalls
from xla_migrate.verify.judge.judgement import Check, Status
from xla_migrate.verify.judge.observed import ObservedRun
from xla_migrate.verify.recordings.located import located

from ..traces import run


def _run(losses: list[float], batch: float = 0.5) -> ObservedRun:
    """A run whose model has one call with one input and one output in the first step."""
    given, output = [1.0, 1.0, 0.0, *([batch] * 64)], [1.0, 1.0, 0.0, *([0.5] * 64)]
    uses = [(0, 0, 0, 0), (0, 1, 0, 1)]
    calls = ModuleCalls([ModuleCall("Net", "Net", "m.py:1", -1)], uses, [], [given, output], [])
    return run(losses, details=Details(modules={0: calls}))


@pytest.mark.parametrize("factor", [2.0, 0.5, -1.0, 1.01])
def test_a_loss_of_the_same_outputs_is_computed_otherwise(factor: float) -> None:
    found = located(_run([1.5, 1.0]), _run([1.5 * factor, 1.0]))
    modules, optimizer = found.verdicts
    assert (modules.name, modules.status) == (Check.MODULES, Status.FAILED)
    assert (
        "step 1: all outputs of modules agree, and the loss is 1.5 in the original"
        in modules.detail
    )
    assert f"{factor:g} times as much" in modules.detail
    assert optimizer.status is Status.NOT_JUDGED
    assert found.culprit is None


@pytest.mark.parametrize("loss", [1.5, 1.5004, float("nan")])
def test_rounding_of_the_loss_is_no_difference(loss: float) -> None:
    found = located(_run([1.5, 1.0]), _run([loss, 3.0]))
    assert found.verdicts[0].status is Status.OK


@pytest.mark.parametrize(("batch", "is_certain"), [(0.9, True), (0.501, False)])
def test_only_a_very_different_batch_is_certainly_no_rounding(
    batch: float, is_certain: bool
) -> None:
    found = located(_run([1.5, 1.0]), _run([1.5, 1.0], batch))
    assert found.verdicts[0].status is Status.FAILED
    assert "outside of all modules" in found.verdicts[0].detail
    assert found.is_certain is is_certain


def test_a_loss_that_is_computed_otherwise_may_be_rounding() -> None:
    assert not located(_run([1.5, 1.0]), _run([3.0, 1.0])).is_certain
