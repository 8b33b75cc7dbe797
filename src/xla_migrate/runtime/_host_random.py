"""True if reading a batch draws from the host's random numbers.

A loader without workers reads in the script's own process. Read ahead in a thread, it would draw its random
numbers before the loop draws its own, in an order of chance: a seeded run would not repeat itself, and the
random states in a checkpoint would be those behind batches that the loop has not seen.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterator
from typing import Any

import torch

from .loading.read_ahead import ReadAhead


def states() -> tuple[Any, ...]:
    """Those of python, torch (on the CPU) and, where it is imported, numpy; equal while nobody draws."""
    numpy = sys.modules.get("numpy")
    found: tuple[Any, ...] = (random.getstate(), bytes(torch.get_rng_state().numpy()))
    if numpy is not None:
        _, keys, position, *_ = numpy.random.get_state()
        found += (keys.tobytes(), position)
    return found


class AheadUnlessItDraws:
    """Reads a source when asked, until a batch has shown that it draws nothing; then ahead.

    The first batch shows nothing: samplers draw their seed with it.

    Args:
        source: What is read.
        send: Called with each item.
        ahead: Makes what reads the rest of the source in threads.
    """

    def __init__(
        self,
        source: Iterator[Any],
        send: Callable[[Any], Any],
        ahead: Callable[[], ReadAhead],
    ) -> None:
        self._source, self._send, self._make = source, send, ahead
        self._asked = 0
        self._ahead: ReadAhead | None = None

    def pull(self) -> Any:
        """The next item, sent. Raises what the source or ``send`` raised, or StopIteration."""
        if self._ahead is not None:
            return self._ahead.pull()
        self._asked += 1
        if self._asked != 2:
            return self._send(next(self._source))
        before = states()
        item = next(self._source)
        if states() == before:
            self._ahead = self._make()
            self._ahead.start()
        return self._send(item)

    def close(self) -> None:
        """End the threads, if there are any."""
        if self._ahead is not None:
            self._ahead.close()
