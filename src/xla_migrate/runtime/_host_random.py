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
from torch.utils.data import (
    BatchSampler,
    DistributedSampler,
    RandomSampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)

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

    With the first batch samplers draw their seed. Torch's own draw nothing more, so that what the dataset draws for that
    batch is looked at alone; with others it is the second batch that shows it.

    Args:
        loader: What `source` iterates over.
        source: What is read.
        send: Called with each item.
        ahead: Makes what reads the rest of the source in threads.
    """

    def __init__(
        self,
        loader: Any,
        source: Iterator[Any],
        send: Callable[[Any], Any],
        ahead: Callable[[], ReadAhead],
    ) -> None:
        self._source, self._send, self._make = source, send, ahead
        self._reads = [_read, _second]
        if _draws_a_seed_alone(loader):
            self._reads[0] = _first
        self._ahead: ReadAhead | None = None

    def pull(self) -> Any:
        """The next item, sent. Raises what the source or ``send`` raised, or StopIteration."""
        if self._ahead is not None:
            return self._ahead.pull()
        read = self._reads.pop(0) if self._reads else _read
        item, draws_nothing = read(self._source)
        if draws_nothing:
            self._ahead = self._make()
            self._ahead.start()
        return self._send(item)

    def close(self) -> None:
        """End the threads, if there are any."""
        if self._ahead is not None:
            self._ahead.close()


def _read(source: Iterator[Any]) -> tuple[Any, bool]:
    """The next item; it shows nothing."""
    return next(source), False


def _second(source: Iterator[Any]) -> tuple[Any, bool]:
    """The next item, and True if nothing was drawn for it."""
    before = states()
    item = next(source)
    return item, states() == before


def _first(source: Any) -> tuple[Any, bool]:
    """The next item, and True if the dataset drew nothing for it."""
    fetcher: Any = getattr(source, "_dataset_fetcher", None)
    fetch = getattr(fetcher, "fetch", None)
    if fetch is None:
        return _read(source)
    quiet = []

    def watched(indices: Any) -> Any:
        before = states()
        item = fetch(indices)
        quiet.append(states() == before)
        return item

    fetcher.fetch = watched
    try:
        return next(source), quiet == [True]
    finally:
        del fetcher.fetch


def _draws_a_seed_alone(loader: Any) -> bool:
    """True if its sampler is one of torch's, which draw at most a seed, with the first batch."""
    batches = getattr(loader, "batch_sampler", None)
    sampler = getattr(loader if batches is None else batches, "sampler", None)
    return type(batches) in (BatchSampler, type(None)) and type(sampler) in _SAMPLERS


_SAMPLERS = (
    SequentialSampler,
    RandomSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
    DistributedSampler,
)
