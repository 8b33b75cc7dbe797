"""Short passes over a DataLoader: a few batches, and the last one if it is smaller, which is a separate graph.

The number of batches that a pass leaves out is recorded: the whole training takes so many steps more.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from torch.utils.data import BatchSampler, DataLoader

from . import phases, records

_left_out: list[tuple[int, int]] = []  # of each pass: optimizer steps at its begin, batches


def shorten(batches: int) -> None:
    """Give so many batches in each pass over any DataLoader; `len` stays what it is."""
    whole = DataLoader.__iter__

    def short(self: DataLoader[Any]) -> Any:
        return _Short(self, whole(self), batches)

    DataLoader.__iter__ = short  # type: ignore[method-assign]


class _Short:
    """An iterator with the attributes of the loader's own."""

    def __init__(self, loader: DataLoader[Any], own: Any, batches: int) -> None:
        self._own = own
        self._pass = _some(loader, own, batches)

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        return next(self._pass)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._own, name)


def _some(loader: DataLoader[Any], own: Any, batches: int) -> Iterator[Any]:
    tell_left_out()
    steps = phases.steps
    for count, batch in enumerate(own):
        if count == batches:
            break
        yield batch
    else:
        return
    odd = odd_last(loader)
    _left_out.append((steps, _length(loader) - batches - bool(odd)))
    if odd:
        collate: Any = loader.collate_fn
        yield collate([loader.dataset[i] for i in range(odd)])


def tell_left_out() -> None:
    """Record the batches that earlier passes left out, of those after which an optimizer has stepped.

    Called when the next pass begins: a loader that reads ahead ends its pass before the training does.
    """
    while _left_out:
        steps, batches = _left_out.pop()
        if phases.steps > steps:
            records.write("left out", batches=batches)


def _length(loader: DataLoader[Any]) -> int:
    """Return the number of batches of a pass; of a data set without a length, as many as were given."""
    try:
        return len(loader)
    except TypeError:
        return 0


def odd_last(loader: DataLoader[Any]) -> int:
    """Return the number of samples in the last batch if it is smaller and can be made; else 0."""
    sampler = loader.batch_sampler
    if type(sampler) is not BatchSampler or sampler.drop_last:
        return 0
    try:
        return len(sampler.sampler) % sampler.batch_size  # type: ignore[arg-type]
    except TypeError:  # a sampler without a length
        return 0
