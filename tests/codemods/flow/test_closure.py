"""The closure visits each node once and knows what led to it."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from xla_codemods.flow.closure import reach, trace

_GRAPHS = st.dictionaries(st.integers(0, 8), st.lists(st.integers(0, 8), max_size=4))


@given(_GRAPHS, st.lists(st.integers(0, 8), min_size=1, max_size=3))
def test_each_node_is_stepped_from_once_and_is_led_to_by_a_step(
    graph: dict[int, list[int]], start: list[int]
) -> None:
    visits: Counter[int] = Counter()

    def step(node: int) -> list[int]:
        visits[node] += 1
        return graph.get(node, [])

    reached = reach(start, step)
    assert set(visits) == set(reached)
    assert set(visits.values()) == {1}
    for node, source in reached.items():
        assert node in start if source is None else node in graph[source]
        assert list(trace(reached, node))[-1] in start
    assert all(other in reached for node in reached for other in graph.get(node, []))


def test_the_trace_is_a_shortest_way() -> None:
    graph = {"a": ["b", "d"], "b": ["c"], "c": ["d"], "d": ["a"]}
    assert list(trace(reach(["a"], graph.__getitem__), "d")) == ["d", "a"]


def test_the_closure_ends_at_the_first_node_that_is_searched_for() -> None:
    graph = {"a": ["b", "d"], "b": ["c"], "c": ["d"], "d": ["a"]}
    visits: list[str] = []

    def step(node: str) -> list[str]:
        visits.append(node)
        return graph[node]

    assert list(reach(["a"], step, lambda node: node == "d")) == ["a", "b", "d"]
    assert visits == ["a"]
    assert list(reach(["d", "a"], step, lambda node: node == "d")) == ["d"]
