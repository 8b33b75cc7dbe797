"""Several processes beside one that drives as many devices: what can be compared of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from ..judge.details import Details
from ..judge.observed import ObservedRun
from ..judge.trace import OptimizerStep, Parameter, Trace

_ALL = "all parameters"


def comparable(reference: ObservedRun, target: ObservedRun) -> tuple[ObservedRun, ObservedRun]:
    """Return both as runs of one process; unchanged if both have equally many processes.

    A loss is the mean over the original's processes: each takes its share of the batch that the one process takes
    as a whole. If the processes hold parts of the parameters (FSDP), the norms of gradients are compared: one by one
    if each process holds a part of each parameter, otherwise the norm of all. If each holds all parameters (DDP), the
    first process represents the others. Printed numbers may cover one share only, so they are not compared.
    """
    if len(reference.traces) < 2 or len(target.traces) != 1:
        return reference, target
    count = len(reference.traces)
    sharded = _shapes(reference.traces[0]) != _shapes(target.traces[0])
    by_name = sharded and _are_alike([*reference.traces, *target.traces])
    compared = "gradients and weights"
    if sharded:
        compared = (
            "the norms of gradients (the original splits each gradient and weight)"
            if by_name
            else "the norm of all gradients (the original splits single gradients and weights)"
        )
    note = (
        f"the original runs {count} processes, the migrated script one process that drives {count} devices: compared are"
        f" the mean of the losses and {compared}, but not the printed output"
    )
    if not sharded:
        theirs, ours = _with_mean_losses(reference.traces), _silent(target.traces[0])
    else:
        theirs, ours = _as_one(reference.traces, by_name), _as_one(target.traces, by_name)
    ours.notes = [*ours.notes, note]
    return (
        replace(reference, traces=[theirs], logs={}),
        replace(target, traces=[ours], logs={}),
    )


def _shapes(trace: Trace) -> dict[int, list[tuple[int, ...]]]:
    return {n: [p.shape for p in parameters] for n, parameters in trace.parameters.items()}


def _silent(trace: Trace) -> Trace:
    """Return the process without what is one share of the whole: printed numbers and data."""
    return replace(trace, printed=None, details=_without_data(trace.details))


def _without_data(details: Details) -> Details:
    return replace(details, batches={}, inputs={})


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


def _are_alike(traces: Sequence[Trace]) -> bool:
    """Return True if all processes step on parameters of the same names, and have gradients of the same."""
    names = [{n: [p.name for p in own] for n, own in t.parameters.items()} for t in traces]
    found = ([step.with_gradient for step in trace.steps] for trace in traces)
    return all(each == names[0] for each in names) and all(
        each == flags[0] for flags in zip(*found) for each in flags
    )


def _as_one(traces: Sequence[Trace], by_name: bool) -> Trace:
    """Return one process whose parameters are whole: each by its name, or one tensor, which all are parts of."""
    first = _with_mean_losses(traces)
    steps = [
        replace(
            step,
            with_gradient=step.with_gradient
            if by_name
            else [any(any(s.with_gradient) for s in own)],
            gradients=_norms(own) if by_name else _norm(own),
            norms=[],
            projections=[],
            moved=[],
        )
        for step, own in zip(first.steps, zip(*(trace.steps for trace in traces)))
    ]
    whole = {
        n: [replace(p, shape=()) for p in own] if by_name else [Parameter(_ALL, (), True)]
        for n, own in first.parameters.items()
    }
    return replace(first, steps=steps, parameters=whole, initial={}, untracked={}, writes={})


def _norms(steps: Sequence[OptimizerStep]) -> list[float]:
    """Return the norm of each gradient, of which each process has measured a part."""
    return [math.hypot(*parts) for parts in zip(*(step.gradients for step in steps))]


def _norm(steps: Sequence[OptimizerStep]) -> list[float]:
    if not all(step.gradients for step in steps):
        return []
    return [math.hypot(*(g for step in steps for g in step.gradients))]
