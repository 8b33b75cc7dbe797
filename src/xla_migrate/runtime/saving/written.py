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
# Paths that this replica has skipped, with the time, until it is known that the master has written them.
_open: dict[str, float] = {}
# The store of the process group, and how often this replica has skipped each file in it.
_counted: tuple[Any, Counter[str]] = (None, Counter())


def skipped(path: str | os.PathLike[str]) -> None:
    """Note that this replica leaves the file to the master."""
    global _counted
    store = _store()
    if _counted[0] is not store:  # A new group counts from zero.
        _counted = (store, Counter())
        _open.clear()
    _counted[1][_key(path)] += 1
    _warn_of_lost(store)
    if store is not None:
        _open.setdefault(os.path.abspath(path), time.monotonic())


def _warn_of_lost(store: Any) -> None:
    """Warn once of a file that this replica skipped a while ago, and that the master has not written."""
    for path, skipped_at in list(_open.items()):
        if time.monotonic() - skipped_at < _PATIENCE:
            return
        del _open[path]
        if _times_written(store, _key(path)) == 0:
            _open.clear()
            warnings.warn(
                f"{path!r} was not written: xla.save writes only in the first process, which has not"
                " called it for the file. Pass `master_only=False` if each process has its own files",
                stacklevel=4,
            )
            return


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
