"""Where steps spend their time: parts add up, compilation is apart, a CPU original is no yardstick."""

from __future__ import annotations

from typing import Any

import pytest

from tests.verify.traces import run
from xla_migrate.verify.judge.performance.step_times import StepFigures
from xla_migrate.verify.judge.performance.verdicts import judge
from xla_migrate.verify.judge.trace import OptimizerStep

LOSSES = [1.0 - n / 100 for n in range(14)]


def told(
    seconds: dict[int, float] | None = None, on_cuda: bool = True, **counts: Any
) -> StepFigures:
    """Figures of steps of 10 ms, but for these."""

    def change(step: OptimizerStep) -> None:
        step.seconds = (seconds or {}).get(step.step, 0.01)
        step.counts.update(counts)

    reference = run(LOSSES)
    reference.traces[0].redirected = not on_cuda
    _, figures = judge(reference, run(LOSSES, side="target", change=change), None)
    assert figures is not None
    return figures


def test_parts_add_up_and_compilation_is_apart() -> None:
    found = told(compile_s=0.002, wait_s=0.003, read_s=0.001, compiles=1)
    assert found.step_s == pytest.approx(0.008)
    assert found.trace_s + found.wait_s + found.read_s == pytest.approx(found.step_s)
    assert (found.wait_s, found.read_s) == (pytest.approx(0.003), pytest.approx(0.001))
    assert (found.compilations, found.compile_s) == (14, pytest.approx(0.028))


def test_parts_never_exceed_the_whole() -> None:
    found = told(compile_s=0.004, wait_s=0.05, read_s=0.005, execute_s=5.0)
    assert found.step_s == pytest.approx(0.006)
    assert found.trace_s >= 0
    assert found.trace_s + found.wait_s + found.read_s == pytest.approx(found.step_s)
    assert found.device_busy == 1.0


def test_a_slow_step_in_ten_is_not_the_usual_one() -> None:
    assert told({9: 5.0}).step_s == pytest.approx(0.01)


def test_an_original_whose_cuda_was_sent_to_the_cpu_is_not_compared_with() -> None:
    assert told().reference_step_s == pytest.approx(0.01)
    assert told(on_cuda=False).reference_step_s is None
