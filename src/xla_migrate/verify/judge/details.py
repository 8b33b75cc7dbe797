"""Details of a run's first steps, as its records hold them: batches and inputs of models."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ..observe.process.packing import unpack


@dataclass(frozen=True)
class Field:
    """One tensor of a batch.

    Attributes:
        name: its place in the batch; of a model's inputs, the number of the call comes first ("0.x").
        shape: of the tensor.
        rows: one number for each of its first rows.
        integers: it holds integers or booleans.
    """

    name: str
    shape: tuple[int, ...]
    rows: tuple[float, ...]
    integers: bool = False


@dataclass
class Details:
    """What is known of a process's first steps.

    Attributes:
        batches: by (loader, batch), both from 0.
        inputs: what each step passed to the outermost modules, by event.
    """

    batches: dict[tuple[int, int], list[Field]] = field(default_factory=dict)
    inputs: dict[int, list[Field]] = field(default_factory=dict)


def _fields(record: dict[str, Any]) -> list[Field]:
    keys = ("names", "shapes", "rows", "integers")
    return [
        Field(name, tuple(shape), tuple(unpack(rows)), integers)
        for name, shape, rows, integers in zip(*(record[key] for key in keys), strict=True)
    ]


def _batch(details: Details, record: dict[str, Any]) -> None:
    details.batches[record["loader"], record["batch"]] = _fields(record)


def _inputs(details: Details, record: dict[str, Any]) -> None:
    details.inputs[record["event"]] = _fields(record)


READERS: dict[str, Callable[[Details, Any], None]] = {"batch": _batch, "inputs": _inputs}
