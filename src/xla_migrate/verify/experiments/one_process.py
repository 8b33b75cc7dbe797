"""Several processes beside one that drives as many devices: what can be compared of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from ..judge.observed import ObservedRun
from ..judge.trace import OptimizerStep, Parameter, Trace

_ALL = "all parameters"


def comparable(reference: ObservedRun, target: ObservedRun) -> tuple[ObservedRun, ObservedRun]:
    """Return both as runs of one process; unchanged if both have equally many processes.

    A loss is the mean over the original's processes: each takes its share of the batch that the one process takes
    as a whole. If the processes hold parts of the parameters (FSDP), the norm of all gradients is compared. If
    each holds all parameters (DDP), the first process represents the others. Printed numbers may cover one share only,
    so they are not compared.
    """
    if len(reference.traces) < 2 or len(target.traces) != 1:
        return reference, target
    count = len(reference.traces)
    sharded = _shapes(reference.traces[0]) != _shapes(target.traces[0])
    compared = (
        "the norm of all gradients (the original splits single gradients and weights)"
        if sharded
        else "gradients and weights"
    )
    note = (
        f"the original runs {count} processes, the migrated script one process that drives {count} devices: compared are"
        f" the mean of the losses and {compared}, but not the printed output"
    )
    if not sharded:
        theirs, ours = _with_mean_losses(reference.traces), _silent(target.traces[0])
    else:
        theirs, ours = _as_one(reference.traces), _as_one(target.traces)
    ours.notes = [*ours.notes, note]
    return (
        replace(reference, traces=[theirs], logs={}),
        replace(target, traces=[ours], logs={}),
    )


def _shapes(trace: Trace) -> dict[int, list[tuple[int, ...]]]:
    return {n: [p.shape for p in parameters] for n, parameters in trace.parameters.items()}


def _silent(trace: Trace) -> Trace:
    return replace(trace, printed=None)


def _with_mean_losses(traces: Sequence[Trace]) -> Trace:
    """The first process's, with the losses of all."""
    steps = [
        replace(
            own[0],
            losses=[math.fsum(losses) / len(own) for losses in zip(*(s.losses for s in own))],
        )
        for own in zip(*(trace.steps for trace in traces))
    ]
    return replace(_silent(traces[0]), steps=steps)


def _as_one(traces: Sequence[Trace]) -> Trace:
    """One process with one tensor: all that the processes hold parts of."""
    first = _with_mean_losses(traces)
    steps = [
        replace(
            step,
            with_gradient=[any(any(s.with_gradient) for s in own)],
            gradients=_norm(own),
            norms=[],
            projections=[],
            moved=[],
        )
        for step, own in zip(first.steps, zip(*(trace.steps for trace in traces)))
    ]
    whole = {n: [Parameter(_ALL, (), True)] for n in first.parameters}
    return replace(first, steps=steps, parameters=whole, initial={}, untracked={}, writes={})


def _norm(steps: Sequence[OptimizerStep]) -> list[float]:
    if not all(step.gradients for step in steps):
        return []
    return [math.sqrt(math.fsum(g * g for step in steps for g in step.gradients))]
