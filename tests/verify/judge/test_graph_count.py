"""The number of graphs: its causes, those that go on, and the prediction for the whole training."""

from __future__ import annotations

from xla_migrate.verify.judge import graph_count
from xla_migrate.verify.judge.judgement import Status
from xla_migrate.verify.judge.trace import Recompile

BRANCH = "if step % accumulate == 0 (train.py:7)"
WARM = [
    Recompile(0, "train.py:5", "the first graph", True),
    Recompile(1, "train.py:8", "add_(): less than before", True, BRANCH),
    Recompile(2, "train.py:9", "add_(): less than before", False, BRANCH),
]
GROWING = [Recompile(n, "train.py:6", "ones() with 1") for n in range(2, 20, 2)]


def test_graphs_of_one_branch_are_one_group_whatever_the_line() -> None:
    first, second = graph_count.groups(WARM, 20)
    assert (first.branch, first.graphs, first.every) == (BRANCH, 2, 0.0)
    assert (second.where, second.graphs) == ("train.py:5", 1)
    assert graph_count.shown(first, lambda place: f"src/{place}") == (
        "2 from `if step % accumulate == 0` (src/train.py:7): add_(): less than before at src/train.py:9"
    )


def test_a_cause_that_goes_on_is_extrapolated() -> None:
    found = graph_count.groups([*WARM, *GROWING], 20)
    assert found[0].every == 2.0
    assert graph_count.predicted(found, 100) == 3 + 9 + 50
    assert graph_count.total(found, 100) == "62 graphs predicted, 12 seen"
    assert graph_count.predicted(graph_count.groups(WARM, 20), 100) == 3


def test_a_cause_that_has_ended_is_not_extrapolated() -> None:
    assert graph_count.predicted(graph_count.groups(GROWING, 100), 1000) == len(GROWING)


def test_more_graphs_than_allowed_fail_with_the_worst_cause_first() -> None:
    found = graph_count.judge(WARM, 20, 2)
    assert found.status is Status.FAILED
    assert found.detail.startswith("3 graphs in 20 steps, at most 2 allowed: 2 from `if step")
    assert graph_count.judge(WARM, 20, 3).status is Status.OK


def test_graphs_cost_seconds_of_compilation() -> None:
    slow = [Recompile(n, "train.py:6", "ones() with 1", seconds=1.5) for n in (1, 2)]
    found = graph_count.groups([*WARM, *slow], 20)
    assert graph_count.total(found, 0) == "5 graphs, 3.0 s to compile"
    group = next(group for group in found if group.seconds)
    assert graph_count.shown(group).startswith("2 from train.py:6, 3.0 s to compile: ones()")
    assert "to compile" not in graph_count.total(graph_count.groups(WARM, 20), 0)


def test_few_graphs_that_go_on_fail() -> None:
    found = graph_count.judge(GROWING, 20, 100)
    assert found.status is Status.FAILED
    assert "one more every 2 steps" in found.detail
    assert found.where == "train.py:6"


def test_a_graph_without_a_known_cause_counts() -> None:
    found = graph_count.groups([Recompile(3, "train.py:4", "", False, "", 2)], 20)
    assert found[0].graphs == 2
    assert "a copy or a read" in found[0].cause
