"""The number of graphs that a run compiles, their causes, and the prediction for the whole training."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from .judgement import Check, Judgement, Status
from .trace import Recompile

_SHOWN = 3  # groups in a verdict
_UNEXPLAINED = "a graph without calls of the script, such as a copy or a read"
_LATE = 2 / 3  # of the run: a cause that still compiles after this goes on
Place = Callable[[str], str]


@dataclass(frozen=True)
class Group:
    """Graphs of one cause.

    Attributes:
        where: `file:line` of the first call that differs.
        branch: the `if` that only some graphs take, with its place, or "".
        cause: in words, of the last one.
        graphs: how many there are.
        seconds: that they took to compile; 0 if that was not measured.
        every: optimizer steps between two new graphs if the count has no limit; 0 if it has.
    """

    where: str
    branch: str
    cause: str
    graphs: int
    every: float = 0.0
    seconds: float = 0.0


def groups(found: Sequence[Recompile], steps: int) -> list[Group]:
    """Return the graphs by cause, the cause of most graphs first.

    Args:
        found: all graphs of a run.
        steps: the optimizer steps that the run took.
    """
    by_cause: dict[str, list[Recompile]] = {}
    for one in found:
        kind = one.cause.partition(":")[0]
        by_cause.setdefault(one.branch or f"{one.where} {kind}", []).append(one)
    out = [_group(members, steps) for members in by_cause.values()]
    return sorted(out, key=lambda group: -group.graphs)


def _group(members: Sequence[Recompile], steps: int) -> Group:
    last = members[-1]
    cause = next((m.cause for m in reversed(members) if m.cause), _UNEXPLAINED)
    again = [m.steps for m in members if not m.new]
    goes_on = len(set(again)) > 2 and again[-1] > _LATE * steps
    every = (again[-1] - again[0]) / (len(set(again)) - 1) if goes_on else 0.0
    graphs, seconds = sum(m.graphs for m in members), sum(m.seconds for m in members)
    return Group(last.where, last.branch, cause, graphs, every, seconds)


def predicted(found: Sequence[Group], more_steps: int) -> int:
    """Return how many graphs the whole training compiles if it takes `more_steps` after this run."""
    new = sum(more_steps / group.every for group in found if group.every)
    return sum(group.graphs for group in found) + round(new)


def total(found: Sequence[Group], more_steps: int) -> str:
    """Return the number of graphs as text, with the prediction if more are to come."""
    known, whole = sum(group.graphs for group in found), predicted(found, more_steps)
    word = "graph" if whole == 1 else "graphs"
    counted = f"{whole} {word}" if whole == known else f"{whole} {word} predicted, {known} seen"
    return counted + _cost(sum(group.seconds for group in found))


def _cost(seconds: float) -> str:
    return f", {seconds:.1f} s to compile" if seconds else ""


def shown(group: Group, place: Place = str) -> str:
    """Return one line about a group."""
    goes_on = _cost(group.seconds)
    goes_on += f", one more every {group.every:.3g} steps" if group.every else ""
    if group.branch:
        condition, _, where = group.branch.rpartition(" (")
        branch = f"`{condition}` ({place(where.rstrip(')'))})"
        return f"{group.graphs} from {branch}{goes_on}: {group.cause} at {place(group.where)}"
    return f"{group.graphs} from {place(group.where)}{goes_on}: {group.cause}"


def judge(found: Sequence[Recompile], steps: int, limit: int) -> Judgement:
    """Return the verdict on the number of graphs of a run; `limit` is the largest that is accepted."""
    causes = groups(found, steps)
    count = sum(group.graphs for group in causes)
    text = f"{total(causes, 0)} in {steps} steps, at most {limit} allowed"
    goes_on = [group for group in causes if group.every]
    if count <= limit and not goes_on:
        return Judgement(Check.GRAPHS, Status.OK, text)
    worst = goes_on if count <= limit else causes
    details = "; ".join(shown(group) for group in worst[:_SHOWN])
    return Judgement(Check.GRAPHS, Status.FAILED, f"{text}: {details}", worst[0].where)
