"""Files that this process writes and opens again: deferred output is written before the file opens.

Whether by `open`, `Path.read_text`, `numpy.loadtxt` or pandas, and in whatever function: all come to `open`. An audit hook would hear
of more (`os.open`), but it makes each `id()` of the process seven times as slow, and `copy.deepcopy` twice.
"""

from __future__ import annotations

import builtins
import io
import os
import pathlib
import re
from collections.abc import Iterator
from typing import Any

from .waiting import queue

_WRITING = os.O_WRONLY | os.O_RDWR
_OURS = "/proc/self/fd"
_FLAGS = re.compile(r"flags:\s*(\d+)")

_CHANGES = frozenset("wax+")
_open = io.open

_written: set[str] = set()


def watch_opened() -> None:
    """Have what waits done before a file is opened that has been opened for writing."""
    _written.update(_open_now())
    builtins.open = io.open = opened
    if hasattr(pathlib, "_NormalAccessor"):  # of Python 3.10, which has it by another name
        pathlib._NormalAccessor.open = staticmethod(opened)


def _open_now() -> Iterator[str]:
    """The paths of files that are open for writing, where the system tells of them."""
    if not os.path.isdir(_OURS):
        return
    for number in os.listdir(_OURS):
        try:
            with open(f"{_OURS}info/{number}") as info:
                found = _FLAGS.search(info.read())
            if found is not None and int(found[1], 8) & _WRITING:
                yield os.readlink(f"{_OURS}/{number}")
        except OSError:  # closed meanwhile
            continue


def opened(file: Any, mode: str = "r", *args: Any, **kwargs: Any) -> Any:
    """Python's own `open`, before which what waits for `file` is done."""
    if isinstance(file, (str, os.PathLike)) and isinstance(path := os.fspath(file), str):
        path = os.path.abspath(path)
        if path in _written:
            queue.before_output()
        elif not _CHANGES.isdisjoint(str(mode)) and not path.startswith("/dev/"):
            _written.add(path)
    return _open(file, mode, *args, **kwargs)
