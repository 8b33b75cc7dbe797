"""Of two graphs' calls, the first that differs is named, with its line and the kind of difference."""

from __future__ import annotations

import pytest

from xla_migrate.verify.observe.device.shapes import TorchCall, explain


def call(name: str, line: int, **changes: object) -> TorchCall:
    fields: dict[str, object] = {"takes": ((8, 4),), "gives": ((8, 4),), "numbers": ()}
    fields |= {"made": (None,), **changes}
    return TorchCall(name=name, where=f"train.py:{line}", **fields)  # type: ignore[arg-type]


GRAPH = [call("linear", 3), call("relu", 4, made=(("train.py:3", "linear"),)), call("sum", 5)]


def changed(index: int, other: TorchCall) -> list[TorchCall]:
    return [other if i == index else c for i, c in enumerate(GRAPH)]


@pytest.mark.parametrize(
    ("index", "other", "where", "words"),
    [
        (0, call("linear", 3, takes=((5, 4),)), "train.py:3", "a batch of another shape"),
        (
            1,
            call("relu", 4, takes=((5, 4),), made=(("train.py:3", "linear"),)),
            "train.py:3",
            "a tensor whose shape changes, made by linear(): (8, 4) before, (5, 4) now",
        ),
        (1, call("relu", 4, numbers=(3,)), "train.py:4", "a Python number that is part of the"),
        (1, call("relu", 4, gives=((7, 4),)), "train.py:4", "a size that the data decides: relu()"),
        (1, call("tanh", 9), "train.py:9", "tanh() where the graph before had relu() (train.py:4)"),
        (2, call("sum", 5, takes=((8, 4), (2,))), "train.py:5", "a list of tensors that grows"),
    ],
)
def test_what_differs_is_told(index: int, other: TorchCall, where: str, words: str) -> None:
    found = explain(changed(index, other), [GRAPH])
    assert found is not None
    assert found[0] == where
    assert words in found[1]


def test_fact_3_31_numbers_of_arithmetic_are_inputs_of_the_graph() -> None:
    graphs = [[call("__mul__", 3, numbers=(n,))] for n in (0.3, 0.5)]
    assert explain(graphs[1], graphs[:1]) is None


@pytest.mark.parametrize("name", ["tensor", "as_tensor", "new_tensor", "full", "randint"])
def test_values_that_are_sent_to_the_device_are_no_part_of_the_graph(name: str) -> None:
    """`torch.tensor([reward], device=device)` was named as the cause of what a mask behind it did."""
    before, now = ([call(name, 3, numbers=(n,)), call("sum", 5)] for n in (-3.1, -2.8))
    assert explain(now, [before]) is None
    now[1] = call("nonzero", 5, gives=((7, 1),))
    found = explain(now, [[before[0], call("nonzero", 5, gives=((8, 1),))]])
    assert found is not None
    assert found[0] == "train.py:5"


def test_a_shape_that_a_factory_is_given_is_a_number_of_python() -> None:
    before, now = (call("full", 3, numbers=(n, 0.5), gives=((n,),)) for n in (3, 4))
    found = explain([now], [[before]])
    assert found is not None
    assert "a Python number that is part of the graph: full() with (3, 0.5) before" in found[1]


def test_zero_and_one_in_data_are_no_part_of_the_graph() -> None:
    assert explain([call("tensor", 3, numbers=(1,))], [[call("tensor", 3, numbers=(5,))]]) is None


def test_fact_3_25_zero_and_one_are_part_of_the_graph() -> None:
    found = explain([call("__mul__", 3, numbers=(1.0,))], [[call("__mul__", 3, numbers=(0.5,))]])
    assert found is not None
    assert (found[0], found[1][:32]) == ("train.py:3", "a number that is exactly 0 or 1 ")


@pytest.mark.parametrize(
    ("calls", "word"), [(GRAPH[:2], "less"), ([*GRAPH, call("exp", 6)], "more")]
)
def test_more_or_fewer_operations_are_told(calls: list[TorchCall], word: str) -> None:
    found = explain(calls, [GRAPH])
    assert found is not None
    assert word in found[1]


def test_the_most_similar_graph_is_the_one_compared_with() -> None:
    evaluation = [call("linear", 30), call("argmax", 31)]
    other = changed(0, call("linear", 3, takes=((5, 4),)))
    found = explain(other, [GRAPH, evaluation])
    assert found is not None
    assert found[0] == "train.py:3"
    assert explain(GRAPH, []) is None
    assert explain(GRAPH, [GRAPH, evaluation]) is None
