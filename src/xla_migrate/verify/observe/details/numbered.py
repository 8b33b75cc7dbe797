"""Numbers for tensors: a tensor that changes in place gets a new one."""

from __future__ import annotations

import weakref
from typing import Any

import torch


class Numbered:
    """The numbers of tensors, as they are now; tensors are not kept alive."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[Any, int, int]] = {}  # id -> (reference, version, number)

    def find(self, tensor: torch.Tensor) -> int | None:
        """Return the tensor's number, or None if it has none or has changed since."""
        known = self._known.get(id(tensor))
        if known is None or known[0]() is not tensor or known[1] != tensor._version:
            return None
        return known[2]

    def put(self, tensor: torch.Tensor, number: int) -> None:
        """Give the tensor a number."""
        self._known[id(tensor)] = (weakref.ref(tensor), tensor._version, number)
