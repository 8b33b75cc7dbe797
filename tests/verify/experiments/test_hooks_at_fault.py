"""An error of the original that only verify's hooks cause is not the original's own."""

from __future__ import annotations

from pathlib import Path

import pytest

from xla_migrate.verify.experiments.hooks_at_fault import blame_hooks
from xla_migrate.verify.judge.failures import Failure, Fault
from xla_migrate.verify.judge.observed import ObservedRun


def failed(fault: Fault | None, seconds: float = 1.0) -> ObservedRun:
    run = ObservedRun("reference", Path("train.py"), [], "float32", Path(), seconds=seconds)
    run.failure = Failure(fault, "train.py:3: ValueError: no") if fault else None
    return run


@pytest.mark.parametrize(
    ("again", "expected"),
    [
        (Fault.SCRIPT, Fault.SCRIPT),
        (None, Fault.HARNESS),
        (Fault.NO_STEP, Fault.HARNESS),
        (Fault.TIMEOUT, Fault.HARNESS),
    ],
)
def test_a_run_without_hooks_decides(again: Fault | None, expected: Fault) -> None:
    run = failed(Fault.SCRIPT, seconds=50.0)
    limits: list[float] = []
    blame_hooks(run, lambda most: limits.append(most) or failed(again))  # type: ignore[func-returns-value]
    assert limits == [150.0]
    assert run.failure is not None
    assert run.failure.fault is expected
    assert ("please report" in run.failure.message) == (expected is Fault.HARNESS)


def test_what_no_hook_causes_is_not_tried_again() -> None:
    for fault in (None, Fault.NETWORK, Fault.PACKAGE, Fault.TIMEOUT, Fault.REDIRECT):
        run = failed(fault)
        blame_hooks(run, lambda most: pytest.fail("ran again"))
        assert run == failed(fault)
