"""Everything that a step leads to: a worklist that visits each node once, however values go round."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from typing import TypeVar

N = TypeVar("N", bound=Hashable)


def reach(
    start: Iterable[N],
    step: Callable[[N], Iterable[N]],
    stop: Callable[[N], bool] | None = None,
) -> dict[N, N | None]:
    """Return the nodes that `step` leads to from `start`, each with the node that led to it.

    The nodes of `start` have None. Nearer nodes come first. `step` is called once for each node,
    so that cycles end and the cost grows with the number of steps. The first node that `stop`
    holds for is the last one.
    """
    reached: dict[N, N | None] = {}
    for node in start:
        reached.setdefault(node, None)
        if stop is not None and stop(node):
            return reached
    work = list(reached)  # grows meanwhile
    for node in work:
        for other in step(node):
            if other not in reached:
                reached[other] = node
                work.append(other)
                if stop is not None and stop(other):
                    return reached
    return reached


def ends(start: Iterable[N], step: Callable[[N], Iterable[N]]) -> list[N]:
    """Return the nodes that `start` leads to and that `step` leads on from to no other."""
    steps: dict[N, list[N]] = {}
    reached = reach(start, lambda node: steps.setdefault(node, list(step(node))))
    return [node for node in reached if not steps[node]]


def all_ends(
    start: Iterable[N], step: Callable[[N], Iterable[N]], holds: Callable[[N], bool]
) -> bool:
    """Return True if `holds` is True for each of the `ends`; False if there is none."""
    found = ends(start, step)
    return bool(found) and all(map(holds, found))


def without_fault(start: Iterable[N], step: Callable[[N], Iterable[N] | None]) -> bool:
    """Return True if `step` returns None, a fault, for none of the nodes that it leads to from `start`."""
    steps: dict[N, Iterable[N] | None] = {}
    reach(start, lambda node: steps.setdefault(node, step(node)) or ())
    return None not in steps.values()


def trace(reached: Mapping[N, N | None], node: N) -> Iterator[N]:
    """Yield `node` and the nodes that led to it, up to the one that the closure started from."""
    current: N | None = node
    while current is not None:
        yield current
        current = reached[current]
