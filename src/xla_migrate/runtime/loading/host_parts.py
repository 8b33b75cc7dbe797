"""Parts of a batch that stay on the host, as the loader has made them: file names, lengths, labels that are printed."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Mapping, MutableMapping, MutableSequence, Sequence
from typing import Any, TypeAlias

import torch
from torch.nn.utils.rnn import PackedSequence

from .._backend import Sender
from .batches import Kept, rebuilt

# The place of a part: an index, a key, a field or an attribute.
Part: TypeAlias = "int | str"


class KeepingSender:
    """Sends what is left of a batch without some parts, and puts these back behind the transfer.

    Args:
        sender: Sends the rest.
        parts: Those that a batch has not are none of its.
    """

    def __init__(self, sender: Sender, parts: Sequence[Part]) -> None:
        self._sender = sender
        self._parts = parts

    def send(self, batch: Any) -> Any:
        """Add the parts that stay on the host to a batch being sent; the loader's objects do not change."""
        if batch is None or isinstance(batch, (torch.Tensor, PackedSequence)):
            return {}, self._sender.send(batch)
        if isinstance(batch, (Mapping, tuple, MutableSequence)):
            kept = {key: batch[key] for key in _keys(batch, self._parts)}
            rest = _with(batch, {key: Kept(part) for key, part in kept.items()})
            return kept, self._sender.send(rest)
        names = [name for name in self._parts if isinstance(name, str) and hasattr(batch, name)]
        if fixed := [name for name in names if _is_computed(batch, name)]:
            warnings.warn(
                f"{type(batch).__name__}.{fixed[0]} is computed from tensors that would be on the "
                "device: the loader leaves its batches"
                " on the host, and the loop moves them",
                stacklevel=2,
            )
            return None, batch
        return {name: getattr(batch, name) for name in names}, self._sender.send(batch)

    def receive(self, sent: Any) -> Any:
        """The batch, its parts on the host where they were."""
        kept, rest = sent
        if kept is None:
            return rest
        batch = self._sender.receive(rest)
        if isinstance(batch, (Mapping, tuple, MutableSequence)):
            return _with(batch, kept)
        for name, part in kept.items():
            if getattr(batch, name) is not part:
                try:
                    setattr(batch, name, part)
                except AttributeError:  # of a frozen dataclass
                    object.__setattr__(batch, name, part)
        return batch


def _keys(batch: Any, parts: Sequence[Part]) -> list[Any]:
    """Return the keys of the parts that `batch` has."""
    if isinstance(batch, Mapping):
        return [part for part in parts if part in batch]
    fields = getattr(batch, "_fields", ())
    places = [fields.index(part) if part in fields else part for part in parts]
    return [
        place for place in places if isinstance(place, int) and -len(batch) <= place < len(batch)
    ]


def _with(batch: Any, parts: Mapping[Any, Any]) -> Any:
    """A batch of the same type, with other parts."""
    if not parts:
        return batch
    if isinstance(batch, (MutableMapping, MutableSequence)):
        changed: Any = copy.copy(batch)
        for key, part in parts.items():
            changed[key] = part
        return changed
    if isinstance(batch, Mapping):
        return rebuilt(batch, {**batch, **parts})
    items = list(batch)
    for place, part in parts.items():
        items[place] = part
    return type(batch)._make(items) if hasattr(batch, "_fields") else rebuilt(batch, items)


def _is_computed(batch: Any, name: str) -> bool:
    """True for a property that cannot be set, and for a method."""
    found = getattr(type(batch), name, None)
    return callable(found) or (isinstance(found, property) and found.fset is None)
