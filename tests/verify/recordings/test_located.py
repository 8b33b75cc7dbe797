"""What is blamed if all modules of a step agree and its loss does not: the code that computes the loss."""

from __future__ import annotations

import pytest

from xla_migrate.verify.judge.details import Details, ModuleCall, ModuleCalls
from xla_migrate.verify.judge.judgement import Check, Status
from xla_migrate.verify.judge.observed import ObservedRun
from xla_migrate.verify.recordings.located import located

from ..traces import run


def _run(losses: list[float]) -> ObservedRun:
    """A run whose model has one call with one output in the first step."""
    output = [1.0, 1.0, 0.0, *([0.5] * 64)]
    calls = ModuleCalls([ModuleCall("Net", "Net", "m.py:1", -1)], [(0, 1, 0, 0)], [], [output], [])
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
