"""Moving a batch: every tensor in it, whatever holds them, and nothing else changed.

torch_xla's own loader turns tuples, namedtuples and OrderedDicts into lists and dicts, and leaves
Parameters, tensor subclasses and objects with ``__slots__`` on the CPU, silently (fact 1.84).
Here types are kept. An object without tensors is returned as the very same object; numpy arrays stay
numpy arrays, as with a CUDA loader.
"""

from __future__ import annotations

import array
import copy
import copyreg
import datetime
import enum
import numbers
import types
from collections.abc import (
    Callable,
    Iterable,
    Iterator,
    Mapping,
    MutableMapping,
    MutableSequence,
    Set,
)
from typing import Any, TypeAlias

import torch
from torch import nn
from torch.nn.utils.rnn import PackedSequence
from torch.utils.data import DataLoader, Dataset, Sampler

Move: TypeAlias = Callable[[torch.Tensor], torch.Tensor]


class Kept:
    """Holds what is not to be moved, in its place."""

    def __init__(self, part: Any) -> None:
        self.part = part


# Never looked into: they hold no tensors of the batch, and some are the way to half the program.
_OPAQUE = (
    Kept,
    str,
    int,
    float,
    bytes,
    bytearray,
    array.array,
    range,
    numbers.Number,
    datetime.date,
    enum.Enum,
    type,
    types.ModuleType,
    types.FunctionType,
    types.BuiltinFunctionType,
    types.MethodType,
    types.GeneratorType,
    torch.device,
    torch.dtype,
    torch.Size,
    torch.Generator,
    nn.Module,
    Dataset,
    DataLoader,
    Sampler,
)


def move(batch: Any, device: torch.device, to_device: Move) -> Any:
    """``batch`` with its tensors moved by ``to_device``; containers and objects keep their types.

    Containers are rebuilt, never changed in place. An object with attributes is copied, by its own
    ``.to(device)`` if it has one. A tensor that occurs twice is moved once.

    Args:
        batch: Anything.
        device: What ``to_device`` moves to, for the objects that move themselves.
        to_device: Called for each tensor that is neither there already nor on ``meta``, without
            its gradient history.
    """
    return Mover(device, to_device)(batch)


class Mover:
    """One pass over one batch, remembering what it has met."""

    def __init__(self, device: torch.device, to_device: Move) -> None:
        self._device = device
        self._to_device = to_device
        # id -> (the original, to keep its id taken; what became of it)
        self._met: dict[int, tuple[Any, Any]] = {}

    def __call__(self, x: Any) -> Any:
        if x is None or isinstance(x, _OPAQUE):
            return x
        if id(x) in self._met:
            return self._met[id(x)][1]
        self._met[id(x)] = (x, x)  # What an object in a cycle sees of itself.
        moved = self._move(x)
        self._met[id(x)] = (x, moved)
        return moved

    def _move(self, x: Any) -> Any:
        if isinstance(x, torch.Tensor):
            return self._tensor(x)
        if isinstance(x, PackedSequence):
            return self._packed(x)
        if isinstance(x, tuple):
            return self._tuple(x)
        if isinstance(x, MutableSequence):
            return self._with_items(x, enumerate(x))
        if isinstance(x, MutableMapping):
            return self._with_items(x, x.items())
        if isinstance(x, Mapping):
            moved = {key: self(value) for key, value in x.items()}
            return rebuilt(x, moved) if _differ(moved.values(), x.values()) else x
        if isinstance(x, Set):
            members = list(x)
            changed = [self(member) for member in members]
            return rebuilt(x, changed) if _differ(changed, members) else x
        return self._object(x)

    def _tensor(self, x: torch.Tensor) -> torch.Tensor:
        if x.device.type in ("meta", self._device.type):
            return x
        if isinstance(x, nn.Parameter):
            return nn.Parameter(self._to_device(x.detach()), x.requires_grad)
        if x.requires_grad:
            return self._to_device(x.detach()).requires_grad_()
        return self._to_device(x)

    def _packed(self, x: PackedSequence) -> PackedSequence:
        """Torch wants ``batch_sizes`` on the CPU; ``PackedSequence.to`` leaves it there as well."""
        return PackedSequence(
            self(x.data), x.batch_sizes, self(x.sorted_indices), self(x.unsorted_indices)
        )

    def _tuple(self, x: tuple[Any, ...]) -> Any:
        moved = [self(item) for item in x]
        if not _differ(moved, x):
            return x
        return type(x)._make(moved) if hasattr(x, "_fields") else rebuilt(x, moved)  # type: ignore[attr-defined]

    def _with_items(self, x: Any, items: Any) -> Any:
        """A list, dict or the like of the user's own type."""
        changed = [(key, moved) for key, item in items if (moved := self(item)) is not item]
        if not changed:
            return x
        duplicate = copy.copy(x)
        for key, moved in changed:
            duplicate[key] = moved
        return duplicate

    def _object(self, x: Any) -> Any:
        if all(tensor.is_meta for tensor in tensors_in(x)):
            return x
        if callable(getattr(x, "to", None)):
            return copy.copy(x).to(self._device)
        duplicate = copy.copy(x)
        for name, value in _attributes(x):
            # Past the __setattr__ of frozen dataclasses.
            object.__setattr__(duplicate, name, self(value))
        return duplicate


def _differ(moved: Any, originals: Any) -> bool:
    return any(a is not b for a, b in zip(moved, originals, strict=True))


def rebuilt(x: Any, content: Any) -> Any:
    """A container of ``x``'s type, which can only be built whole."""
    try:
        return type(x)(content)
    except TypeError as error:
        raise TypeError(
            f"cannot rebuild a {type(x).__name__} with its tensors moved to the device: {error}. "
            "Give it a .to(device) method, or yield a dict or tuple"
        ) from error


def _attributes(x: Any) -> Iterator[tuple[str, Any]]:
    """An object's own attributes, in ``__dict__`` and in ``__slots__``."""
    yield from getattr(x, "__dict__", {}).items()
    for name in copyreg._slotnames(type(x)):  # type: ignore[attr-defined]
        if hasattr(x, name):
            yield name, getattr(x, name)


def tensors_in(x: Any) -> Iterator[torch.Tensor]:
    """Every tensor that ``move`` would come to, once for each object that holds it."""
    return _tensors_in(x, set())


def _tensors_in(x: Any, seen: set[int]) -> Iterator[torch.Tensor]:
    if isinstance(x, torch.Tensor):
        yield x
        return
    if x is None or isinstance(x, _OPAQUE) or id(x) in seen:
        return
    seen.add(id(x))
    if isinstance(x, Mapping):
        held: Iterable[Any] = x.values()
    elif isinstance(x, tuple | MutableSequence | Set):
        held = x
    else:
        held = (value for _, value in _attributes(x))
    for item in held:
        yield from _tensors_in(item, seen)
