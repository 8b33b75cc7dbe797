"""Conditions that only have to hold: read with the other deferred values, and raised if they do not hold."""

from __future__ import annotations

import torch

from .values import waits
from .waiting import Cancellable, Snapshot, queue


class _Check(Cancellable):
    """A deferred condition."""

    __slots__ = ("message", "taken")

    def __init__(self, taken: Snapshot, message: str) -> None:
        super().__init__()
        self.taken = taken
        self.message = message

    def arrive(self) -> None:
        """The answer has come."""
        assert self.taken.host is not None
        if not self.is_cancelled and not self.taken.host.item():
            raise ValueError(self.message)


def checked_later(valid: torch.Tensor, message: str) -> bool:
    """Return True if `valid` is checked after the step; False if the caller must check it now.

    Args:
        valid: Booleans.
        message: Of the ``ValueError`` that a later step mark raises if one is false.
    """
    if not waits(valid):
        return False
    queue.put(_Check(queue.snapshot(valid.detach().all()), message))
    return True
