"""Parts of batches that stay on the host, whatever the batch is."""

from __future__ import annotations

import collections
import dataclasses
import types
import warnings
from typing import Any, NamedTuple

import pytest
import torch
from torch.utils.data import DataLoader

from xla_migrate import runtime as xla
from xla_migrate.runtime.loading.batches import move
from xla_migrate.runtime.loading.host_parts import KeepingSender

META = torch.device("meta")


class ToMeta:
    """A device that every machine has."""

    def send(self, batch: Any) -> Any:
        return move(batch, META, lambda tensor: tensor.to(META))

    def receive(self, sent: Any) -> Any:
        return sent


class Fields(NamedTuple):
    x: Any
    label: Any
    name: Any


@dataclasses.dataclass
class Data:
    x: Any
    label: Any
    name: Any = None


@dataclasses.dataclass(frozen=True)
class Frozen:
    x: Any
    label: Any
    name: Any


class Moving:
    """As batches of graphs are: it moves itself, and all of it."""

    def __init__(self, x: Any, label: Any, name: Any) -> None:
        self.x, self.label, self.name = x, label, name

    def to(self, device: Any) -> Moving:
        self.x, self.label = self.x.to(device), self.label.to(device)
        return self


class Slots:
    __slots__ = ("label", "name", "x")

    def __init__(self, x: Any, label: Any, name: Any) -> None:
        self.x, self.label, self.name = x, label, name


X, LABEL, NAME = torch.ones(2, 3), torch.tensor([1, 2]), ["a.png", "b.png"]
PARTS = {"x": X, "label": LABEL, "name": NAME}
CASES = {
    "tuple": ((X, LABEL, NAME), (1, 2)),
    "list": ([X, LABEL, NAME], (1,)),
    "nested": (((X, X), LABEL, NAME), (1,)),
    "namedtuple": (Fields(X, LABEL, NAME), ("label",)),
    "namedtuple by index": (Fields(X, LABEL, NAME), (1,)),
    "dict": (PARTS, ("label", "name")),
    "a dict of its own": (collections.OrderedDict(PARTS), ("label",)),
    "mapping": (types.MappingProxyType(PARTS), ("label",)),
    "dataclass": (Data(X, LABEL, NAME), ("label",)),
    "frozen": (Frozen(X, LABEL, NAME), ("label",)),
    "object": (Moving(X, LABEL, NAME), ("label", "name")),
    "slots": (Slots(X, LABEL, NAME), ("label",)),
    "namespace": (types.SimpleNamespace(**PARTS), ("label",)),
}


def part(batch: Any, index: int, name: str) -> Any:
    if isinstance(batch, (tuple, list)):
        return batch[index]
    return batch[name] if hasattr(batch, "keys") else getattr(batch, name)


@pytest.mark.parametrize(("batch", "parts"), CASES.values(), ids=CASES)
def test_a_part_stays_what_it_was_and_all_else_moves(batch: Any, parts: Any) -> None:
    sender = KeepingSender(ToMeta(), parts)
    found = sender.receive(sender.send(batch))
    assert type(found) is type(batch)
    assert part(found, 1, "label") is LABEL
    assert part(found, 2, "name") == NAME
    x = part(found, 0, "x")
    assert all(each.is_meta for each in (x if isinstance(x, tuple) else (x,)))
    assert part(batch, 1, "label") is LABEL  # nor is the loader's own changed
    assert not any(each.is_meta for each in (X, LABEL))


@pytest.mark.parametrize(
    "batch", [(X,), {"x": X}, Data(X, None), [X], X, None], ids=lambda batch: type(batch).__name__
)
def test_what_a_batch_has_not_is_none_of_its_parts(batch: Any) -> None:
    sender = KeepingSender(ToMeta(), (1, "file", "more"))
    found = sender.receive(sender.send(batch))
    assert type(found) is type(batch)
    whole = found if isinstance(found, torch.Tensor) or found is None else part(found, 0, "x")
    assert whole is None or whole.is_meta


class Computing:
    """Its label is one of the host's while its tensors are there."""

    def __init__(self, x: torch.Tensor) -> None:
        self.x = x

    @property
    def label(self) -> Any:
        return self.x.numpy().sum()


def test_a_batch_whose_part_cannot_be_kept_is_left_to_the_loop() -> None:
    batch = Computing(X)
    sender = KeepingSender(ToMeta(), ("label",))
    with pytest.warns(UserWarning, match="Computing.label is computed from"):
        found = sender.receive(sender.send(batch))
    assert found is batch
    assert found.label == 6


@pytest.mark.parametrize("tuning", [{}, {"loader_prefetch_size": 0}], ids=["ahead", "in step"])
def test_the_loader_keeps_parts_on_the_host(device: torch.device, tuning: Any) -> None:
    samples = [(torch.full((2,), float(i)), i, f"{i}.png") for i in range(6)]
    loader = xla.MpDeviceLoader(DataLoader(samples, batch_size=2), host=(1, 2), **tuning)  # type: ignore[arg-type]
    seen = list(loader)
    assert [x.device.type for x, _, _ in seen] == ["xla"] * 3
    assert [label.numpy().tolist() for _, label, _ in seen] == [[0, 1], [2, 3], [4, 5]]
    assert seen[2][2] == ("4.png", "5.png")
    again = xla.MpDeviceLoader(loader)
    assert again is loader
    assert next(iter(xla.MpDeviceLoader(loader, host=(0,))))[0].device.type == "cpu"


def test_on_the_cpu_all_stays_where_it_is(eager: None) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ((x, name),) = xla.MpDeviceLoader([(X, NAME)], host=(1,))
    assert x is X
    assert name is NAME
