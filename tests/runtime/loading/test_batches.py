"""Batches of every kind keep their types; their tensors move."""

from __future__ import annotations

import dataclasses
from collections import OrderedDict, UserDict, defaultdict, deque, namedtuple
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import PackedSequence, pack_sequence

from xla_migrate.runtime.loading.batches import move, tensors_in

# A stand-in for a device that needs none: tensors that have moved are double.
HERE = torch.device("xla")


def there(x: Any) -> Any:
    return move(x, HERE, lambda tensor: tensor.double())


def moved(tensor: torch.Tensor) -> bool:
    return tensor.dtype is torch.float64


ONES = torch.ones(2)
Pair = namedtuple("Pair", "x y")


class Typed(NamedTuple):
    x: torch.Tensor
    name: str = "n"


class Subclass(torch.Tensor):
    pass


class MyList(list[Any]):
    pass


class MyTuple(tuple[Any, ...]):
    pass


class Encoding(UserDict[str, Any]):
    """As transformers' BatchEncoding."""

    def __init__(self, data: dict[str, Any], extra: int) -> None:
        super().__init__(data)
        self.extra = extra


@dataclasses.dataclass
class Plain:
    x: torch.Tensor
    label: str = "a"
    later: Any = dataclasses.field(init=False, default=None)

    def __post_init__(self) -> None:
        self.later = "set by __post_init__"


@dataclasses.dataclass(frozen=True)
class Frozen:
    x: torch.Tensor


@dataclasses.dataclass(frozen=True, slots=True)
class FrozenSlots:
    x: torch.Tensor
    n: int = 3


class Slots:
    __slots__ = ("__private", "never_set", "x")

    def __init__(self, x: torch.Tensor) -> None:
        self.x, self.__private = x, x

    @property
    def private(self) -> torch.Tensor:
        return self.__private


class Attributes:
    def __init__(self, x: torch.Tensor) -> None:
        self.x, self.nested, self.name = x, {"deep": [x]}, "n"


class Movable:
    def __init__(self, x: torch.Tensor) -> None:
        self.x, self.went_to = x, None

    def to(self, device: torch.device) -> Movable:
        self.x, self.went_to = self.x.double(), device  # In place, as PyG's Data does.
        return self


@pytest.mark.parametrize(
    "batch",
    [
        ONES,
        [ONES, "s", 3, None],
        (ONES, (ONES, 1)),
        Pair(ONES, "y"),
        Typed(ONES),
        {"x": ONES, "ids": ["a", "b"]},
        OrderedDict(b=ONES, a=ONES),
        defaultdict(list, x=[ONES]),
        MappingProxyType({"x": ONES}),
        Encoding({"x": ONES}, extra=7),
        MyList([ONES]),
        MyTuple([ONES]),
        deque([ONES]),
        {ONES},
        frozenset([ONES]),
        torch.ones(2, 2).max(dim=0),
        Plain(ONES),
        Frozen(ONES),
        FrozenSlots(ONES),
        Slots(ONES),
        Attributes(ONES),
        [{"deep": (Pair([ONES], {"k": Plain(ONES)}),)}],
    ],
    ids=lambda batch: type(batch).__name__,
)
def test_fact_1_84_types_are_kept_and_tensors_moved(batch: Any) -> None:
    before = list(tensors_in(batch))
    result = there(batch)
    assert type(result) is type(batch)
    assert result is not batch
    after = list(tensors_in(result))
    assert len(after) == len(before) >= 1
    assert all(moved(tensor) for tensor in after if tensor.is_floating_point())
    assert all(not moved(tensor) for tensor in before), "the original is left as it was"


def test_fields_and_attributes_are_kept() -> None:
    assert there(Pair(ONES, "y")).y == "y"
    assert list(there(OrderedDict(b=ONES, a=ONES))) == ["b", "a"]
    assert there(defaultdict(list, x=ONES))["missing"] == []
    encoding = there(Encoding({"x": ONES}, extra=7))
    assert encoding.extra == 7
    assert moved(encoding["x"])
    plain = Plain(ONES)
    plain.later = "changed"
    assert there(plain).later == "changed"
    assert there(FrozenSlots(ONES, 5)).n == 5
    assert moved(there(Slots(ONES)).private)
    assert moved(there(Attributes(ONES)).nested["deep"][0])


def test_what_holds_no_tensor_is_the_same_object() -> None:
    for batch in (
        None,
        "text",
        3,
        [1, 2],
        {"a": "b"},
        (1, "x"),
        np.ones(3),
        np.float32(1),
        np.array([{"x": 1}], dtype=object),
        Attributes("no tensor"),  # type: ignore[arg-type]
        nn.Linear(2, 2),
        torch.Size([2]),
        range(3),
    ):
        assert there(batch) is batch


def test_numpy_stays_numpy_beside_tensors() -> None:
    array = np.ones(3)
    result = there({"x": ONES, "n": array})
    assert result["n"] is array
    assert moved(result["x"])


def test_packed_sequence_keeps_its_batch_sizes_on_the_cpu() -> None:
    packed = pack_sequence([torch.ones(2, 1), torch.ones(3, 1)], enforce_sorted=False)
    result = there(packed)
    assert type(result) is PackedSequence
    assert moved(result.data)
    assert result.batch_sizes is packed.batch_sizes


def test_parameters_and_subclasses_stay_what_they_are() -> None:
    parameter = there(nn.Parameter(torch.ones(2), requires_grad=False))
    assert isinstance(parameter, nn.Parameter)
    assert not parameter.requires_grad
    wanting = there(torch.ones(2, requires_grad=True))
    assert wanting.requires_grad
    assert wanting.is_leaf
    assert type(there(torch.ones(2).as_subclass(Subclass))) is Subclass


def test_an_object_moves_itself_by_a_copy() -> None:
    batch = Movable(ONES)
    result = there(batch)
    assert result.went_to == HERE
    assert moved(result.x)
    assert batch.went_to is None, "the dataset's own object stays as it was"


def test_an_object_with_another_kind_of_to_is_left_alone() -> None:
    class Quantity:
        def to(self, unit: str) -> None:
            raise ValueError(unit)

    batch = Quantity()
    assert there(batch) is batch


def test_one_tensor_in_two_places_moves_once() -> None:
    first, second = there([ONES, {"again": ONES}])
    assert first is second["again"]


def test_cycles_end() -> None:
    batch = Attributes(ONES)
    batch.nested["me"] = batch  # type: ignore[assignment]
    assert moved(there(batch).x)


def test_meta_tensors_and_tensors_already_there_stay() -> None:
    meta = torch.empty(2, device="meta")
    assert there(meta) is meta
    assert move(ONES, torch.device("cpu"), lambda _: pytest.fail("moved")) is ONES


def test_a_container_that_cannot_be_rebuilt_says_so() -> None:
    class Odd(tuple[Any, ...]):
        def __new__(cls, one: Any, two: Any) -> Odd:
            return super().__new__(cls, (one, two))

    with pytest.raises(TypeError, match="cannot rebuild a Odd"):
        there(Odd(ONES, ONES))
