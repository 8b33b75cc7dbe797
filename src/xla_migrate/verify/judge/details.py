"""Details of a run's first steps, as its records hold them: batches and inputs of models."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

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


class Drawn(NamedTuple):
    """When a batch was drawn: after how many steps, in which pass through its loader (from 1), as which of it (from 0)."""

    event: int
    turn: int
    place: int


@dataclass(frozen=True)
class ModuleCall:
    """A call of a module: its name in the model ("Net:head"), class, the line that made it, the call around it or -1."""

    name: str
    kind: str
    built: str
    around: int


@dataclass(frozen=True)
class ModuleCalls:
    """The calls of modules in one step.

    Attributes:
        calls: as they began.
        uses: (call, 0 for an input or 1 for an output, place, tensor), as they came.
        backward: tensors, as their gradients came.
        tensors: their summaries: norm, largest, mean, values at fixed indices.
        gradients: the same, one for each of `backward`.
    """

    calls: list[ModuleCall]
    uses: list[tuple[int, int, int, int]]
    backward: list[int]
    tensors: list[list[float]]
    gradients: list[list[float]]


@dataclass(frozen=True)
class Operation:
    """A result of a function of torch.

    Attributes:
        name: of the function.
        where: the line that called it.
        call: the module's call around it, or -1.
        takes: what it was called with: the number of an earlier result, the name of the module's parameter, "input".
        requires_grad: of the result.
    """

    name: str
    where: str
    call: int
    takes: list[int | str]
    requires_grad: bool

    def __str__(self) -> str:
        return f"`{self.name}` ({self.where})"


@dataclass(frozen=True)
class Operations:
    """The operations of a step, or of one module's call in it.

    Attributes:
        calls: their results, in the order of the calls.
        results: summaries of the results.
        backward: numbers of results, as their gradients came.
        gradients: summaries, one for each of `backward`.
    """

    calls: list[Operation]
    results: list[list[float]]
    backward: list[int]
    gradients: list[list[float]]


@dataclass(frozen=True)
class ParameterUpdate:
    """One parameter in one step: elements before and after, its gradient, its state before.

    A tensor in the state is (shape, elements).
    """

    group: int
    shape: tuple[int, ...]
    before: list[float]
    gradient: list[float]
    gradient_summary: list[float]
    after: list[float]
    state: dict[str, float | tuple[tuple[int, ...], list[float]]]


@dataclass(frozen=True)
class Update:
    """An optimizer step: the class, and its parameters in order; None for those without a gradient."""

    kind: str
    parameters: list[ParameterUpdate | None]


@dataclass
class Details:
    """The details of a process's first steps.

    Attributes:
        batches: by (loader, batch), both from 0.
        drawn: when each of them was drawn; older recordings do not have it.
        inputs: what each step passed to the outermost modules, by event.
        modules: the calls of modules of the first steps, by event.
        operations: of the first steps, or of a module that was looked at closely, by event.
        updates: what the first optimizer steps were given and made, by event.
    """

    batches: dict[tuple[int, int], list[Field]] = field(default_factory=dict)
    drawn: dict[tuple[int, int], Drawn] = field(default_factory=dict)
    inputs: dict[int, list[Field]] = field(default_factory=dict)
    modules: dict[int, ModuleCalls] = field(default_factory=dict)
    updates: dict[int, Update] = field(default_factory=dict)
    operations: dict[int, Operations] = field(default_factory=dict)


def _fields(record: dict[str, Any]) -> list[Field]:
    keys = ("names", "shapes", "rows", "integers")
    return [
        Field(name, tuple(shape), tuple(unpack(rows)), integers)
        for name, shape, rows, integers in zip(*(record[key] for key in keys), strict=True)
    ]


def _batch(details: Details, record: dict[str, Any]) -> None:
    key = record["loader"], record["batch"]
    details.batches[key] = _fields(record)
    if "turn" in record:
        details.drawn[key] = Drawn(record["event"], record["turn"], record["place"])


def _inputs(details: Details, record: dict[str, Any]) -> None:
    details.inputs[record["event"]] = _fields(record)


def _modules(details: Details, record: dict[str, Any]) -> None:
    tensors, gradients = (
        _rows(unpack(record[key]), record["width"]) for key in ("tensors", "gradients")
    )
    details.modules[record["event"]] = ModuleCalls(
        [ModuleCall(*call) for call in record["calls"]],
        [tuple(use) for use in record["uses"]],
        record["backward"],
        tensors,
        gradients,
    )


def _rows(values: list[float], width: int) -> list[list[float]]:
    return [values[i : i + width] for i in range(0, len(values), width)]


_HEAD = 3  # a summary's norm, largest and mean come before its elements


def _update(details: Details, record: dict[str, Any]) -> None:
    values = iter(unpack(record["values"]))
    fields = [[next(values) for _ in range(size)] for size in record["sizes"]]
    count = len(record["shapes"])
    after = fields[len(fields) - count :]
    at = 0
    found: list[ParameterUpdate | None] = []
    known = zip(record["shapes"], record["state"], after, strict=True)
    for group in record["groups"]:
        if group < 0:
            found.append(None)
            continue
        shape, state, made = next(known)
        before, summary, gradient = fields[at : at + 3]
        gradient = gradient or summary[_HEAD:]
        tensors = {n: (tuple(v[1]), fields[v[0]]) for n, v in state.items() if isinstance(v, list)}
        at += 3 + len(tensors)
        plain = {**state, **tensors}
        found.append(ParameterUpdate(group, tuple(shape), before, gradient, summary, made, plain))
    details.updates[record["event"]] = Update(record["kind_of_optimizer"], found)


def _operations(details: Details, record: dict[str, Any]) -> None:
    results, gradients = (
        _rows(unpack(record[key]), record["width"]) for key in ("results", "gradients")
    )
    details.operations[record["event"]] = Operations(
        [Operation(*call) for call in record["calls"]], results, record["backward"], gradients
    )


READERS: dict[str, Callable[[Details, Any], None]] = {
    "batch": _batch,
    "inputs": _inputs,
    "modules": _modules,
    "update": _update,
    "operations": _operations,
}
