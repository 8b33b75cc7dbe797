"""True if reading a batch draws from the host's random numbers.

A loader without workers reads in the script's own process. Read ahead in a thread, it would draw its random
numbers before the loop draws its own, in an order of chance: a seeded run would not repeat itself, and the
random states in a checkpoint would be those behind batches that the loop has not seen.
"""

from __future__ import annotations

import functools
import pickle
import random
import sys
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import torch

from .loading.read_ahead import Ahead


def states(generators: Sequence[Any] = ()) -> tuple[Any, ...]:
    """Return the states of Python's, torch's CPU and, if imported, numpy's random generators.

    Args:
        generators: Further ones, of ``own_generators``.
    """
    numpy = sys.modules.get("numpy")
    found: tuple[Any, ...] = (random.getstate(), bytes(torch.get_rng_state().numpy()))
    if numpy is not None:
        _, keys, position, *_ = numpy.random.get_state()
        found += (keys.tobytes(), position)
    return found + tuple(_state(generator) for generator in generators)


def own_generators(*roots: Any) -> list[Any]:
    """Return the random generators that data sets, transforms and functions hold.

    Args:
        roots: Objects that are searched, through attributes, containers, bound methods, partials and closures.
    """
    found: list[Any] = []
    seen: set[int] = set()
    waiting = list(roots)
    while waiting and len(seen) < _MOST_OBJECTS:
        value = waiting.pop()
        if value is None or isinstance(value, _LEAVES) or id(value) in seen:
            continue
        seen.add(id(value))
        if _is_generator(value):
            found.append(value)
        else:
            waiting += _parts(value)
    return found


_MOST_OBJECTS = 10_000
_MOST_ITEMS = 100  # of one container: samples are not searched, transforms are few
_LEAVES = (str, bytes, int, float, complex, type, torch.Tensor, torch.dtype, torch.device)


def _is_generator(value: Any) -> bool:
    if isinstance(value, (torch.Generator, random.Random)):
        return True
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(
        value, (numpy.random.Generator, numpy.random.RandomState)
    )


def _state(generator: Any) -> bytes:
    if isinstance(generator, torch.Generator):
        return bytes(generator.get_state().numpy())
    if isinstance(generator, random.Random):
        return pickle.dumps(generator.getstate())
    own = getattr(generator, "bit_generator", None)
    return pickle.dumps(generator.get_state() if own is None else own.state)


def _parts(value: Any) -> list[Any]:
    if isinstance(value, Mapping):
        return list(islice(value.values(), _MOST_ITEMS))
    if isinstance(value, (list, tuple, set, frozenset)):
        return list(islice(value, _MOST_ITEMS))
    if isinstance(value, functools.partial):
        return [value.func, *value.args, *value.keywords.values()]
    cells = getattr(value, "__closure__", None) or ()
    parts = [cell.cell_contents for cell in cells if cell != _EMPTY_CELL]
    parts += [getattr(value, "__self__", None), *(getattr(value, "__defaults__", None) or ())]
    return [*parts, *getattr(value, "__dict__", {}).values()]


_EMPTY_CELL = types.CellType()


class AheadUnlessItDraws:
    """Reads a source when asked, until a batch has shown that it draws nothing; then ahead.

    A sampler may draw its seed with the first batch. So only what the dataset draws for that batch counts.

    Args:
        loader: What `source` iterates over.
        source: What is read.
        send: Called with each item.
        ahead: Called with the number of items that were read. It makes what reads the rest of the source in threads.
    """

    def __init__(
        self,
        loader: Any,
        source: Iterator[Any],
        send: Callable[[Any], Any],
        ahead: Callable[[int], Ahead],
    ) -> None:
        self._source, self._send, self._make = source, send, ahead
        own = own_generators(loader.dataset, loader.collate_fn)
        self._reads = [functools.partial(_first, own), functools.partial(_second, own)]
        self._count = 0
        self._ahead: Ahead | None = None

    def pull(self) -> Any:
        """The next item, sent. Raises what the source or ``send`` raised, or StopIteration."""
        if self._ahead is not None:
            return self._ahead.pull()
        read = self._reads.pop(0) if self._reads else _read
        item, draws_nothing = read(self._source)
        self._count += 1
        if draws_nothing:
            self._ahead = self._make(self._count)
            self._ahead.start()
        return self._send(item)

    def close(self) -> None:
        """End the threads, if there are any."""
        if self._ahead is not None:
            self._ahead.close()


def _read(source: Iterator[Any]) -> tuple[Any, bool]:
    """The next item; it shows nothing."""
    return next(source), False


def _second(own: Sequence[Any], source: Iterator[Any]) -> tuple[Any, bool]:
    """The next item, and True if nothing was drawn for it."""
    before = states(own)
    item = next(source)
    return item, states(own) == before


def _first(own: Sequence[Any], source: Any) -> tuple[Any, bool]:
    """The next item, and True if the dataset drew nothing for it."""
    fetcher: Any = getattr(source, "_dataset_fetcher", None)
    fetch = getattr(fetcher, "fetch", None)
    if fetch is None:
        return _read(source)
    quiet = []

    def watched(indices: Any) -> Any:
        before = states(own)
        item = fetch(indices)
        quiet.append(states(own) == before)
        return item

    fetcher.fetch = watched
    try:
        return next(source), quiet == [True]
    finally:
        del fetcher.fetch
