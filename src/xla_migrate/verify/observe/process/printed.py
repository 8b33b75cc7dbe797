"""The script's output, line by line, with the line of the script that printed it.

Written to the record at the very end of the process, so that what a migrated script prints late, after its loop or
at its exit, is there too. Processes that did not train leave none.
"""

from __future__ import annotations

import atexit
import re
import sys
from collections.abc import Callable
from multiprocessing import util
from typing import Any

from . import records, where

MOST = 100_000  # lines that are kept

# How Python's `warnings` begins what it prints, all lines of it in one call: libraries warn of what they like.
_WARNING = re.compile(r"\S.*:\d+: [\w.]*Warning: ")

_lines: list[tuple[str, str]] = []
_aside: Callable[[], bool] = bool  # True where a loader's thread prints


class _Stream:
    """The lines of one of Python's streams."""

    def __init__(self, write: Callable[[str], Any]) -> None:
        self.to = write
        self.text = ""
        self.place = ""

    def write(self, text: str) -> Any:
        """Print, and note."""
        if len(_lines) < MOST and not _aside() and not _WARNING.match(text):
            if not self.text:
                self.place = where.caller()
            self.text += text
            *whole, self.text = self.text.split("\n")
            _lines.extend((line, self.place) for line in whole if line.strip())
        return self.to(text)


def install() -> None:
    """Note what goes to standard output and standard error from now on."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "write"):
            stream.write = _Stream(stream.write).write  # type: ignore[method-assign]
    # Registered first, so it comes last: after all that the script and its libraries still print at their exit.
    atexit.register(_record)
    util.Finalize(None, _record, exitpriority=-100)  # children of multiprocessing skip atexit


def leave_out(aside: Callable[[], bool]) -> None:
    """Leave out what is printed where `aside()` is true."""
    global _aside
    _aside = aside


def _record() -> None:
    if records.is_open():  # also if nothing was printed: it ended as it should, and has told all
        records.write("printed", lines=[list(line) for line in _lines])
    _lines.clear()
