"""The end of the script: its exception, or a note that it reached its end."""

from __future__ import annotations

import sys
import traceback
from types import TracebackType

from . import records


def install() -> None:
    """Write an uncaught exception to the record, then let Python report it as usual."""
    report = sys.excepthook

    def hook(kind: type[BaseException], value: BaseException, trace: TracebackType | None) -> None:
        records.write(
            "error",
            type=kind.__name__,
            chain=_chain(value),
            message=str(value),
            frames=[
                [frame.filename, frame.lineno, frame.name, frame.line]
                for frame in traceback.extract_tb(trace)
            ],
        )
        report(kind, value, trace)

    sys.excepthook = hook


def _chain(value: BaseException) -> list[str]:
    """The names of the exception's classes and of those behind it."""
    found: list[str] = []
    one: BaseException | None = value
    while one is not None and len(found) < 50:
        found += [k.__name__ for k in type(one).__mro__[:-2]]
        one = one.__cause__ or one.__context__
    return found
