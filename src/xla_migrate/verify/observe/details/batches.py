"""The first batches of each data loader, and what the script passes to its models in each step."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from ..device import device_values
from ..process import clock, packing, records
from ..process.patching import Patches
from . import samples
from .quietly import off_mode

_PASS = "_xla_migrate_pass"  # of an iterator

_wanted = 0
_events: Callable[[], int] = int  # how many steps have been taken
_numbers: dict[int, int] = {}  # id of a loader -> its number, by first use
_alive: list[Any] = []  # the loaders: no other may get the id of one
_counts: dict[int, int] = {}
_passes: dict[int, int] = {}
_batches: list[dict[str, Any]] = []
drawn: list[Callable[[int, int, Any], None]] = []  # called with (loader, number, batch)
_lock = threading.Lock()  # a device loader reads batches in a separate thread


@dataclass
class _Pass:
    """One pass through a loader: which loader, the number of the pass (from 1), and the batches drawn so far."""

    loader: int
    number: int
    drawn: int = 0


def install(patches: Patches, count: int, events: Callable[[], int] = int) -> None:
    """Summarise the first `count` batches of each `DataLoader`; `events` counts the steps taken before."""
    from torch.utils.data import dataloader

    global _wanted, _events
    _wanted, _events = count, events
    make = dataloader.DataLoader.__iter__

    @functools.wraps(make)
    def iterate(self: Any) -> Any:
        iterator = make(self)
        with _lock:
            if id(self) not in _numbers:
                _numbers[id(self)] = len(_numbers)
                _alive.append(self)
            number = _numbers[id(self)]
            _passes[number] = _passes.get(number, 0) + 1
            setattr(iterator, _PASS, _Pass(number, _passes[number]))
        return iterator

    patches.put(dataloader.DataLoader, "__iter__", iterate)
    following = dataloader._BaseDataLoaderIter.__next__

    @functools.wraps(following)
    def next_batch(self: Any) -> Any:
        batch = following(self)
        which = getattr(self, _PASS, None)
        if which is not None:
            with _lock:
                _note(which, batch)
        return batch

    patches.put(dataloader._BaseDataLoaderIter, "__next__", next_batch)
    patches.on_undo(_forget)


def _note(which: _Pass, batch: Any) -> None:
    loader, place = which.loader, which.drawn
    index = _counts.get(loader, 0)
    _counts[loader] = index + 1
    which.drawn += 1
    for listener in drawn:
        with clock.harness():
            off_mode(listener, loader, index, batch)
    if index >= _wanted:
        return
    with clock.harness(), torch.no_grad(), torch._C.DisableTorchFunction():  # type: ignore[no-untyped-call]
        found = samples.tensors_in(batch)
        if not all(device_values.real_device(t).type == "cpu" for _, t in found):
            return  # reading it would wait for the device
        _batches.append(
            {
                "loader": loader,
                "batch": index,
                "event": _events(),
                "turn": which.number,
                "place": place,
                "names": [name for name, _ in found],
                "shapes": [list(t.shape) for _, t in found],
                "integers": [not (t.is_floating_point() or t.is_complex()) for _, t in found],
                "rows": [packing.pack(samples.rows(t).tolist()) for _, t in found],
            }
        )


def write() -> None:
    """Write the batches that were summarised."""
    with _lock:
        for batch in sorted(_batches, key=lambda b: (b["loader"], b["batch"])):
            records.write("batch", **batch)
        _batches.clear()


def _forget() -> None:
    for one in (_numbers, _alive, _counts, _passes, _batches, drawn):
        one.clear()
