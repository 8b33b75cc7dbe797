"""Files that only the master writes: another replica that reads one waits until it is written.

A CUDA script that saves on every replica finds its own file right after. With ``xla.save`` the
others skip the write and could read before the master has written: no file, or an old one.
"""

from __future__ import annotations

import os
import time
import warnings
from collections import Counter
from typing import Any

import torch.distributed as dist

_PATIENCE = 30.0  # seconds
# The store of the process group, and how often this replica has skipped each file in it.
_counted: tuple[Any, Counter[str]] = (None, Counter())


def skipped(path: str | os.PathLike[str]) -> None:
    """Note that this replica leaves the file to the master."""
    global _counted
    store = _store()
    if _counted[0] is not store:  # A new group counts from zero.
        _counted = (store, Counter())
    _counted[1][_key(path)] += 1


def written(path: str | os.PathLike[str]) -> None:
    """Tell the other replicas that the file is complete."""
    if (store := _store()) is not None:
        store.add(_key(path), 1)


def wait_for(path: str | os.PathLike[str]) -> None:
    """Wait until the master has written the file as often as this replica has skipped it.

    A master that has left, with the store that it holds, has written all of its files.
    """
    key = _key(path)
    store, counts = _counted
    if not counts[key] or store is None or store is not _store():
        return
    end = time.monotonic() + _PATIENCE
    while (times := _times_written(store, key)) is not None and times < counts[key]:
        if time.monotonic() > end:
            counts[key] = times  # The replicas do not save equally often.
            warnings.warn(
                f"{os.fspath(path)!r} may be an old file: this replica called xla.save for it "
                "more often than the master, which alone writes it",
                stacklevel=4,
            )
            return
        time.sleep(0.02)


def _times_written(store: Any, key: str) -> int | None:
    """Return how often the master has written the file, or None if nobody holds the store any more."""
    try:
        times: int = store.add(key, 0)
    except dist.DistNetworkError:
        return None
    return times


def _key(path: str | os.PathLike[str]) -> str:
    return f"xla_migrate/written/{os.path.abspath(path)}"


def _store() -> Any:
    """Return the key-value store of the process group, or None without a group."""
    if not (dist.is_available() and dist.is_initialized()):
        return None
    return dist.distributed_c10d._get_default_store()
