"""The exit code of a process in which what waited until its end raises: Python itself prints the error then, and leaves with 0."""

from __future__ import annotations

import atexit
import logging
import os
import sys
from collections.abc import Callable

_codes: list[int] = []


def leaving(function: Callable[[], None]) -> None:
    """``function()`` at the process's end; what it raises is shown, and the exit code that Python would have given it."""
    try:
        function()
    except SystemExit as end:
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
        _codes.append(end.code if isinstance(end.code, int) else int(end.code is not None))
    except BaseException:
        sys.excepthook(*sys.exc_info())
        _codes.append(1)


@atexit.register
def _leave() -> None:
    """Behind all that was registered later: nothing else can set the code."""
    if any(_codes):
        logging.shutdown()
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()
        os._exit(next(filter(None, _codes)))
