"""The time of the migrated script's steps by part, and their other costs.

The parts of a step are disjoint and add up to it. Compilation is reported separately: it happens once, whatever the number of
steps. Work on the device is asynchronous, so it is reported as the share of time in which the device is busy, not as a
part. A comparison with the original is made only where the original ran on CUDA: an original on the CPU with its CUDA
calls redirected says nothing of a GPU.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import mean

from ..observed import ObservedRun
from ..trace import OptimizerStep

Iteration = Sequence[OptimizerStep]


@dataclass(frozen=True)
class StepFigures:
    """Per step of the first optimizer, after warm-up; times in seconds.

    Attributes:
        step_s: of a step of the migrated script, without compilation; the mean of the middle half of all steps.
        reference_step_s: of the original's, likewise; None if it did not run on CUDA.
        trace_s: of `step_s`, in Python: tracing, the loader, printing.
        wait_s: of `step_s`, waiting for the device at step marks.
        read_s: of `step_s`, waiting for values that the script reads.
        device_busy: share of the time in which the device computes, from 0 to 1.
        compile_s: of all compilations of the run together.
        compilations: how many those are.
        compiles, launches, marks, uploads, reads: counts per step, after warm-up.
        host_reads, reference_host_reads: calls of the script that read from the device, per step.
        graph: nodes of the largest graph.
        harness_s: the harness's own work beside each step.
    """

    step_s: float
    reference_step_s: float | None
    trace_s: float
    wait_s: float
    read_s: float
    device_busy: float
    compile_s: float
    compilations: int
    compiles: float
    launches: float
    marks: float
    uploads: float
    reads: float
    host_reads: float
    reference_host_reads: float
    graph: float
    harness_s: float


def figures(
    steps: Sequence[Iteration],
    original: Sequence[Iteration],
    target: Sequence[Iteration],
    reference: ObservedRun,
) -> StepFigures:
    """The figures of one process.

    Args:
        steps: its iterations after warm-up, at least one.
        original: the original's.
        target: all its iterations.
        reference: the original's run.
    """
    usual = _middle_half(steps)
    step = mean(_seconds(i) for i in usual)
    read = min(mean(count(i, "read_s") for i in usual), step)
    wait = min(mean(count(i, "wait_s") for i in usual), step - read)
    on_cuda = bool(original) and not reference.redirected and "cuda" in reference.traces[0].devices
    elapsed = sum(_seconds(i) for i in steps)
    busy = sum(count(i, "execute_s") for i in steps) / elapsed if elapsed > 0 else 0.0
    per_step = {
        name: mean(count(i, name) for i in steps)
        for name in ("compiles", "launches", "marks", "uploads", "reads")
    }
    return StepFigures(
        step_s=step,
        reference_step_s=mean(_seconds(i) for i in _middle_half(original)) if on_cuda else None,
        trace_s=step - wait - read,
        wait_s=wait,
        read_s=read,
        device_busy=min(1.0, busy),
        compile_s=sum(count(i, "compile_s") for i in target),
        compilations=int(sum(count(i, "compiles") for i in target)),
        host_reads=reads_per_step(steps),
        reference_host_reads=reads_per_step(original),
        graph=max(i[-1].counts.get("graph", 0) for i in steps),
        harness_s=mean(sum(s.harness for s in i) for i in steps),
        **per_step,
    )


def count(iteration: Iteration, name: str) -> float:
    """Return the sum of one of torch_xla's counters over the steps of an iteration."""
    return sum(step.counts.get(name, 0) for step in iteration)


def reads_per_step(steps: Sequence[Iteration]) -> float:
    """Calls that read from the device, per iteration."""
    return mean(sum(s.host_reads for s in i) for i in steps) if steps else 0.0


def _seconds(iteration: Iteration) -> float:
    """Without what was spent compiling."""
    return max(0.0, sum(s.seconds for s in iteration) - count(iteration, "compile_s"))


def _middle_half(steps: Sequence[Iteration]) -> Sequence[Iteration]:
    """Drop the fastest and slowest quarters: evaluations, ends of epochs, other load of the machine."""
    cut = len(steps) // 4
    return sorted(steps, key=_seconds)[cut : len(steps) - cut]
