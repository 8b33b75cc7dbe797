"""Everything that a step leads to: a worklist that visits each node once, however values go round."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from typing import TypeVar

N = TypeVar("N", bound=Hashable)


def reach(start: Iterable[N], step: Callable[[N], Iterable[N]]) -> dict[N, N | None]:
    """Return the nodes that `step` leads to from `start`, each with the node that led to it.

    The nodes of `start` have None. Nearer nodes come first. `step` is called once for each node,
    so that cycles end and the cost grows with the number of steps.
    """
    reached: dict[N, N | None] = dict.fromkeys(start)
    for node in (work := list(reached)):  # grows meanwhile
        for other in step(node):
            if other not in reached:
                reached[other] = node
                work.append(other)
    return reached


def trace(reached: Mapping[N, N | None], node: N) -> Iterator[N]:
    """Yield `node` and the nodes that led to it, up to the one that the closure started from."""
    current: N | None = node
    while current is not None:
        yield current
        current = reached[current]
