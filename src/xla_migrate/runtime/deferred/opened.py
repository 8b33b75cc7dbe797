"""Files that this process writes, and opens again: what waits is written before that.

Whether by `open`, `Path.read_text`, `numpy.loadtxt` or pandas, and in whatever function: Python tells of each by an audit event.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from typing import Any

from .waiting import queue

_WRITING = os.O_WRONLY | os.O_RDWR
_OURS = "/proc/self/fd"
_FLAGS = re.compile(r"flags:\s*(\d+)")

_written: set[str] = set()


def watch_opened() -> None:
    """Have what waits done before a file is opened that has been opened for writing."""
    _written.update(_open_now())
    sys.addaudithook(_heard)


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


def _heard(event: str, args: tuple[Any, ...]) -> None:
    if event == "open" and isinstance(args[0], str):
        _opened(os.path.abspath(args[0]), args[2])


def _opened(path: str, flags: int) -> None:
    if path in _written:
        queue.before_output()
    elif flags & _WRITING and not path.startswith("/dev/"):
        _written.add(path)
