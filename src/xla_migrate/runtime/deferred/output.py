"""Keep other code's output in order: deferred output is printed before it.

The methods of `sys.stdout`, `sys.stderr` and of files that deferred calls write to are watched, and so are logging and
what starts programs or ends this one, and the ends of a notebook's cells.
"""

from __future__ import annotations

import concurrent.futures
import functools
import io
import logging
import os
import subprocess
import sys
import weakref
from collections.abc import Callable
from typing import Any

from .waiting import queue

WATCHED = "_xla_migrate_waits"
_OF_STREAMS = ("write", "close", "getvalue")  # of files and StringIO that streams are redirected to
_OF_PROCESSES = ("abort", "execv", "execve", "posix_spawn", "posix_spawnp", "system")
_OF_FILES = ("write", "writelines", "close", "truncate", "seek", "tell", "detach")
_OF_LOGGERS = ("setLevel", "addHandler", "removeHandler", "addFilter", "removeFilter")
_OF_HANDLERS = ("setLevel", "setFormatter", "addFilter", "removeFilter")
Defer = Callable[[Callable[[], Any]], None]


def watch(stream: Any, defer: Defer) -> bool:
    """Have what waits done before anything else is written to `stream`; whether that could be done.

    A flush comes behind what waits (`defer`): before another program writes there, or this one is copied or ended.
    """
    return _watch_all(stream, _OF_STREAMS, defer)


def watch_file(file: Any, defer: Defer) -> bool:
    """The same of a file of the script's own, and before it is closed."""
    return isinstance(file, io.IOBase) and _watch_all(file, _OF_FILES, defer)


def _watch_all(stream: Any, names: tuple[str, ...], defer: Defer) -> bool:
    method = getattr(stream, "flush", None)
    if getattr(method, WATCHED, False):  # the last that is watched
        return True
    if not _watch(stream, names):
        return False
    if method is None:
        return True
    flush, owner = _loose(stream, "flush", method), _owner(stream)

    def flushed() -> None:
        if queue.is_waited_for_here():
            kept = owner()
            defer(lambda: flush() if kept is not None else None)
        else:
            flush()

    setattr(flushed, WATCHED, True)
    try:
        stream.flush = flushed
    except AttributeError:
        return False
    return True


def _watch(stream: Any, names: tuple[str, ...]) -> bool:
    for name in names:
        method = getattr(stream, name, None)
        if method is None or getattr(method, WATCHED, False):
            continue
        try:
            setattr(stream, name, watched(_loose(stream, name, method)))
        except AttributeError:
            return False
    return True


def _loose(stream: Any, name: str, method: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap `method` without keeping its `stream` alive, so that an unused file is closed and flushed."""
    function = getattr(type(stream), name, None)
    if function is None or getattr(method, "__self__", None) is not stream:
        return method
    owner = _owner(stream)

    @functools.wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        return function(owner(), *args, **kwargs)

    return called


def _owner(stream: Any) -> Callable[[], Any]:
    try:
        return weakref.ref(stream)
    except TypeError:
        return lambda: stream


def watched(method: Callable[..., Any]) -> Callable[..., Any]:
    """`method`, before which what waits is done."""

    @functools.wraps(method)
    def behind(*args: Any, **kwargs: Any) -> Any:
        queue.before_output()
        return method(*args, **kwargs)

    setattr(behind, WATCHED, True)
    return behind


def _watch_logging() -> None:
    """Handlers may write elsewhere: a record is made before any of them sees it. It is of the time when it was written,
    and of the levels, handlers and formats of then.
    """
    make = logging.getLogRecordFactory()

    def made(*args: Any, **kwargs: Any) -> logging.LogRecord:
        queue.before_output()
        record = make(*args, **kwargs)
        if queue.written:
            late = record.created - queue.written
            record.created = queue.written
            record.msecs = int(queue.written % 1 * 1000) + 0.0
            record.relativeCreated -= late * 1000
        return record

    logging.setLogRecordFactory(made)
    _watch(logging, ("disable",))
    _watch(logging.Logger, _OF_LOGGERS)
    _watch(logging.Handler, _OF_HANDLERS)


def _watch_processes() -> None:
    """Other programs write to the same places; and behind `os._exit` nothing can be written."""
    _watch(os, _OF_PROCESSES)
    _watch(subprocess.Popen, ("__init__",))
    os.register_at_fork(before=queue.before_fork)
    leave = os._exit

    @functools.wraps(leave)
    def left(status: int) -> None:
        try:
            queue.before_output()
        finally:
            leave(status)

    os._exit = left  # type: ignore[assignment]


def _watch_bars() -> None:
    """Show the last values of a progress bar when it is closed, even if the loop was left early."""
    for name in ("tqdm.std", "tqdm.notebook"):
        if (home := sys.modules.get(name)) is not None:
            _watch(vars(home).get("tqdm_notebook") or home.tqdm, ("close",))


def _watch_futures() -> None:
    """Flush before a pool's future is done: code that waits for it continues then."""
    _watch(concurrent.futures.Future, ("set_result", "set_exception"))


def _watch_notebook() -> None:
    """A notebook's cell shows what it has printed: before its traceback and its result, and not below the next cell."""
    ipython = sys.modules.get("IPython")
    shell: Any = ipython.get_ipython() if ipython is not None else None
    if shell is None:
        return
    shell.events.register("post_run_cell", lambda _: queue.settle_all())
    _watch(shell, ("showtraceback",))
    _watch(shell.display_pub, ("publish",))
    shell.display_trap.hook = shown = watched(shell.displayhook)
    if sys.displayhook is shell.displayhook:  # a cell is running
        sys.displayhook = shown


queue.at_first_use += [
    _watch_logging,
    _watch_processes,
    _watch_bars,
    _watch_futures,
    _watch_notebook,
]
