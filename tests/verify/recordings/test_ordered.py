"""The first check that fails is reported, and nothing after it."""

from __future__ import annotations

from typing import Any

from xla_migrate.verify.judge.compare import Comparison, compare
from xla_migrate.verify.judge.details import Details, Field
from xla_migrate.verify.judge.judgement import Check, Status
from xla_migrate.verify.judge.trace import OptimizerStep
from xla_migrate.verify.recordings.ordered import in_order

from ..traces import run


def batches(*rows: float) -> Details:
    return Details(batches={(0, 0): [Field("0", (len(rows),), rows)]})


def judged(**changes: Any) -> Comparison:
    reference = run(details=batches(1.0, 2.0))
    target = run(side="target", **{"details": batches(1.0, 2.0), **changes})
    return in_order(compare(reference, target), 1e-5)


def status(comparison: Comparison) -> dict[str, Status]:
    return {str(v.name): v.status for v in comparison.verdicts}


def spoiled(step: OptimizerStep) -> None:
    step.losses = [2 * x for x in step.losses]


def test_all_checks_pass_in_their_order() -> None:
    found = judged()
    assert found.proven
    names = [v.name for v in found.verdicts]
    assert names[:4] == [Check.SAME_DATA, Check.SAME_WEIGHTS, Check.SAME_STEPS, Check.NUMBERS]


def test_other_data_are_blamed_and_neither_weights_nor_losses() -> None:
    found = judged(details=batches(2.0, 1.0), initial={0: ([9.0, 1.0], [2.0, 0.5])}, change=spoiled)
    assert [v.name for v in found.failed] == [Check.SAME_DATA]
    assert found.divergence is None
    assert status(found)[Check.SAME_WEIGHTS] is Status.NOT_JUDGED
    assert status(found)[Check.NUMBERS] is Status.NOT_JUDGED


def test_other_initial_weights_are_blamed_and_no_losses() -> None:
    found = judged(initial={0: ([9.0, 1.0], [2.0, 0.5])}, change=spoiled)
    assert [v.name for v in found.failed] == [Check.SAME_WEIGHTS]
    assert found.divergence is not None
    assert found.divergence.tensor == "0.weight"


def test_other_losses_are_blamed_and_no_printed_line() -> None:
    found = judged(change=spoiled)
    assert [v.name for v in found.failed] == [Check.NUMBERS]


def test_batches_that_change_no_loss_are_reported_and_not_blamed() -> None:
    found = judged(details=batches(2.0, 1.0))
    assert found.proven
    assert status(found)[Check.SAME_DATA] is Status.NOT_JUDGED
    assert "the losses agree nevertheless" in found.verdicts[0].detail
