"""XLA_MIGRATE_REPORT=1: at its end a run prints the lines that fell back to the CPU, read or compiled late.

Sees what runs in the thread that imported the runtime. Nothing is installed without the variable.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import importlib
import os
import sys
from collections import Counter
from collections.abc import Callable
from multiprocessing import util
from typing import Any, NoReturn

import torch

FALLBACK, READ, COMPILED = "ran on the CPU", "read from the device", "compiled late"
_WARM = 3  # optimizer steps after which a compilation is late
_SHOWN = 40  # lines of the table

_START = os.getcwd()
_counts: Counter[tuple[str, str, str]] = Counter()  # (event, file:line, operation)
_state = {"steps": 0, "rank": 0, "pid": 0}


def report_at_exit() -> None:
    """Watch this process if XLA_MIGRATE_REPORT=1."""
    if os.environ.get("XLA_MIGRATE_REPORT") != "1":
        return
    from torch.optim.optimizer import register_optimizer_step_post_hook

    from .._backend import uses_torch_xla

    _state["pid"] = os.getpid()
    register_optimizer_step_post_hook(_stepped)
    name = "lines_on_xla" if uses_torch_xla() else "lines_on_native"
    importlib.import_module(f".{name}", __package__).install()
    atexit.register(_print)
    util.Finalize(None, _print, exitpriority=100)  # children of multiprocessing skip atexit
    _print_before(os._exit)


def _print_before(leave: Callable[[int], NoReturn]) -> None:
    @functools.wraps(leave)
    def left(status: int) -> NoReturn:
        _print()
        leave(status)

    os._exit = left


def note(event: str, operation: str, times: int = 1) -> None:
    """Count an event at the line of the script that is running."""
    if event == COMPILED and _state["steps"] < _WARM:
        return
    _counts[event, _line(), operation] += times


def _stepped(*_: Any) -> None:
    if not _state["steps"]:
        from ..processes import rank

        _state["rank"] = rank()
    _state["steps"] += 1


_RUNTIME = os.path.dirname(os.path.dirname(__file__))
_INSIDE = (os.path.dirname(torch.__file__) + os.sep, _RUNTIME + os.sep)


def _line() -> str:
    frame = sys._getframe(1)
    while frame.f_back is not None and _is_library(frame.f_code.co_filename):
        frame = frame.f_back
    if _is_library(frame.f_code.co_filename):
        return "a backward pass"  # in a thread of PyTorch
    return f"{_short(frame.f_code.co_filename)}:{frame.f_lineno}"


def _short(file: str) -> str:
    """Return the path from the folder that the run started in: scripts change and delete folders."""
    return os.path.relpath(file, _START) if os.path.isabs(file) else file


def _is_library(file: str) -> bool:
    return file.startswith(_INSIDE) or f"{os.sep}torch_xla{os.sep}" in file or file[:1] == "<"


def table() -> list[str]:
    """Return the lines of the report."""
    if not _counts:
        return ["nothing ran on the CPU, read from the device or compiled late"]
    rows = [(str(n), *key) for key, n in _counts.most_common(_SHOWN)]
    widths = [max(len(row[i]) for row in rows) for i in range(3)]
    lines = [
        f"{n:>{widths[0]}}  {event:<{widths[1]}}  {line:<{widths[2]}}  {operation}"
        for n, event, line, operation in rows
    ]
    more = len(_counts) - len(rows)
    return [*lines, f"and {more} more lines"] if more > 0 else lines


def _print() -> None:
    steps, _state["steps"] = _state["steps"], 0
    is_ours = _state["pid"] == os.getpid() and _state["rank"] == 0
    if not is_ours or not (steps or _counts):
        return
    with contextlib.suppress(OSError, ValueError):  # standard error may be closed
        head = f"xla-migrate report, {steps} optimizer steps:"
        print("\n  ".join([head, *table()]), file=sys.stderr, flush=True)
    _counts.clear()
