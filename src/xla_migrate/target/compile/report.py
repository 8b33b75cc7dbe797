"""The verdicts, as text and as plain data."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from ...known_errors.explain import explained, last_known
from ...verify.judge import graph_count
from .fit import Fitted
from .judge import FITS, REFUSED, TOO_LARGE, Verdict, size
from .session import CompileOutcome, summary
from .tracing import Tracing

NOT_RUN = (
    "Compiled does not mean run: the TPU compiler accepted these programs, but no device has executed them. "
    "This says nothing about speed or results."
)
_SHOWN = 6  # branches that were not reached
Place = Callable[[str], str]


def lines(outcome: CompileOutcome, place: Place = str) -> Iterator[str]:
    """The report.

    Args:
        outcome: what was found.
        place: of the script as the user has it, for a `file:line` of the traced one.
    """
    target = outcome.topology
    chips = "1 chip" if target.chips == 1 else f"{target.chips} chips"
    yield f"{target.name} ({chips}), {outcome.compiler}"
    for number, one in enumerate(outcome.verdicts, 1):
        yield from _graph(number, one, place)
    yield from _notes(outcome, place)
    counts = ", ".join(f"{count} {status}" for status, count in summary(outcome).items() if count)
    new = sum(1 for one in outcome.verdicts if not one.cached)
    yield f"{len(outcome.verdicts)} graphs: {counts or 'none'}; compiled now: {new}"
    if any(one.status == FITS for one in outcome.verdicts):
        yield NOT_RUN


def _graph(number: int, one: Verdict, place: Place) -> Iterator[str]:
    graph = one.graph
    yield f"{place(graph.place)}: graph {number}: {kind(one)}, ended by a {graph.why} ({graph.times} times): {one.status}"
    if one.differs:
        yield f"    as an earlier graph, in other shapes: {one.differs}"
    if one.memory:
        memory = one.memory
        took = f"{one.seconds:.1f} s to compile" + (" (in an earlier run)" if one.cached else "")
        yield (
            f"    {size(one.peak)} of {size(one.limit)}: arguments {size(memory['arguments'])}, "
            f"outputs {size(memory['outputs'])} ({size(memory['aliased'])} in place), temporary {size(memory['temporary'])}"
            + (f", outside the graph {size(graph.beside)}" if graph.beside else "")
        )
        yield f"    {took}; {one.flops / 1e9:.3g} GFLOP, {size(one.bytes)} moved; {_collectives(one)}"
    if one.reason:
        yield f"    {'the TPU compiler refuses it: ' if one.status == REFUSED else ''}{one.reason}"
    for advice in one.advice:
        yield f"    try: {advice}"


def kind(one: Verdict) -> str:
    """Return what a graph does, in a word or two."""
    phases = one.graph.phases
    if "optimizer step" in phases:
        return "training step" if "forward" in phases or "backward" in phases else "optimizer step"
    if "backward" in phases:
        return "forward and backward" if "forward" in phases else "backward"
    for phase in ("evaluation", "forward"):
        if phase in phases:
            return phase
    return "checkpoint" if one.graph.why == "save" else "other"


def _collectives(one: Verdict) -> str:
    if not one.collectives:
        return "no collectives"
    return ", ".join(f"{count} {name}" for name, count in sorted(one.collectives.items()))


def _notes(outcome: CompileOutcome, place: Place) -> Iterator[str]:
    traced = outcome.tracing
    yield from problem_lines(traced, place)
    seen = {kind(one) for one in outcome.verdicts}
    missing = [
        name
        for name, there in (
            ("training", any("backward" in one.graph.phases for one in outcome.verdicts)),
            ("evaluation", "evaluation" in seen),
            ("a checkpoint", bool(traced.saves)),
        )
        if not there
    ]
    if missing:
        after = ", stopped because no new graph appeared (--patience)" if traced.stopped else ""
        yield f"not seen in {traced.steps} optimizer steps{after}: {', '.join(missing)}; choose options of the script that reach them sooner"
    if traced.reads:
        told = [f"{place(where)} ({answer})" for where, answer in list(traced.reads.items())[:4]]
        more = f" and {len(traced.reads) - 4} more" if len(traced.reads) > 4 else ""
        yield f"values that the script read, replaced by made-up values: {', '.join(told)}{more}; --execute-on-cpu computes them"
    if outcome.topology.chips > 1 and not any(one.graph.spmd for one in outcome.verdicts):
        yield "the graphs are for one chip: the script does not use SPMD, so reductions between replicas are not included"


def plain_count(traced: Tracing, place: Place = str) -> dict[str, Any]:
    """Return the number of graphs and their causes for JSON."""
    causes = graph_count.groups(traced.causes, traced.steps)
    return {
        "predicted": graph_count.predicted(causes, traced.left_out),
        "seen": len(traced.causes),
        "steps": traced.steps,
        "causes": [graph_count.shown(group, place) for group in causes],
        "unreached": _unreached(traced, place),
        "problem": placed(traced.problem, place) or None,
    }


def _unreached(traced: Tracing, place: Place) -> list[str]:
    return [f"`{branch}` ({place(where)})" for where, branch in traced.unreached.items()]


def count_lines(traced: Tracing, limit: int, place: Place = str) -> Iterator[str]:
    """Yield lines: how many graphs the whole training compiles, and their causes."""
    causes = graph_count.groups(traced.causes, traced.steps)
    found = graph_count.predicted(causes, traced.left_out)
    verdict = "more than the" if found > limit else "at most the"
    total = graph_count.total(causes, traced.left_out)
    yield f"{total}: {verdict} {limit} of --max-graphs ({traced.steps} steps traced)"
    for group in causes:
        yield f"    {graph_count.shown(group, place)}"
    yield from problem_lines(traced, place)
    if missed := _unreached(traced, place):
        more = f" and {len(missed) - _SHOWN} more" if len(missed) > _SHOWN else ""
        yield (
            f"not reached in {traced.steps} steps: {', '.join(missed[:_SHOWN])}{more}: each can add graphs; choose options"
            " that reach it sooner, or a larger --steps"
        )
    if traced.reads:
        yield (
            f"values that the script read are made up ({place(next(iter(traced.reads)))}): if a value decides a branch or is"
            " used on the device, the number can differ (--execute-on-cpu computes them)"
        )
    if traced.stopped:
        yield "stopped because no new graph appeared: later parts of the training may add graphs (--patience)"


def problem_lines(traced: Tracing, place: Place = str) -> Iterator[str]:
    """Yield why the script did not come to its end, with an explanation if it is a known error."""
    if traced.problem:
        yield f"not traced to the end: {placed(traced.problem, place)}"
        yield from explained(last_known(traced.problem))


def placed(problem: str, place: Place) -> str:
    """Return the problem with the place in the user's own script."""
    where, colon, rest = problem.partition(": ")
    return f"{place(where)}{colon}{rest}" if colon and " " not in where else problem


def fitted_lines(found: Fitted, name: str) -> Iterator[str]:
    """Yield the result of `--fit`."""
    if found.largest is None:
        yield f"--{found.option}: not even {found.too_large} fits {name}"
    elif found.too_large is None:
        yield f"--{found.option}={found.largest} fits {name}, the largest value of the range"
    else:
        yield f"--{found.option}={found.largest} is the largest that fits {name}; {found.too_large} does not"
    tried = ", ".join(
        f"{v} {'fits' if ok else 'does not'}" for v, ok in sorted(found.tried.items())
    )
    yield f"    tried: {tried}"


def plain(
    outcome: CompileOutcome, place: Place = str, found: Fitted | None = None
) -> dict[str, Any]:
    """For JSON."""
    traced = outcome.tracing
    out: dict[str, Any] = {
        "version": 1,
        "topology": outcome.topology.name,
        "chips": outcome.topology.chips,
        "compiler": outcome.compiler,
        "executed": False,
        "graphs": [_plain(one, place) for one in outcome.verdicts],
        "reads": {place(where): answer for where, answer in traced.reads.items()},
        "checkpoints": [place(where) for where in traced.saves],
        "optimizer_steps": traced.steps,
        "problem": placed(traced.problem, place) or None,
        "exit_code": outcome.exit_code,
    }
    if found is not None:
        out["fit"] = {
            "option": found.option,
            "largest": found.largest,
            "too_large": found.too_large,
            "tried": {str(value): ok for value, ok in sorted(found.tried.items())},
        }
    return out


def _plain(one: Verdict, place: Place) -> dict[str, Any]:
    graph = one.graph
    return {
        "place": place(graph.place),
        "kind": kind(one),
        "cut": graph.why,
        "times": graph.times,
        "status": one.status,
        "reason": one.reason or None,
        "advice": one.advice if one.status == TOO_LARGE else [],
        "seconds": one.seconds,
        "cached": one.cached,
        "memory": one.memory,
        "beside": graph.beside,
        "peak": one.peak,
        "limit": one.limit,
        "flops": one.flops,
        "bytes": one.bytes,
        "collectives": one.collectives,
        "spmd": graph.spmd,
        "differs": one.differs or None,
    }
