"""`xla-migrate -`: a source on standard input, the new one on standard output."""

from __future__ import annotations

import os
import sys

from ..files.find import Found
from ..results import Outcome, Run
from ..settings import Finder
from .work import Order, verdict_on

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .arguments import Arguments


def run_stdin(given: Arguments, order: Order) -> int:
    """Judge standard input as if it were the file `--stdin-filename`; the exit code."""
    shown = given.stdin_filename or "<stdin>"
    path = os.path.abspath(given.stdin_filename or "stdin.py")
    folder = os.path.dirname(path)
    settings = Finder().of(folder)
    data = sys.stdin.buffer.read()
    found = Found(path, shown, settings, True, folder)
    if given.force_exclude and given.stdin_filename and settings.excludes_named(path):
        if order.rewriting and not order.diff:
            _print(data)
        return 0
    from .checks import check_settings

    check_settings(settings)
    verdict = verdict_on(data, found, order)
    unsafe = order.is_unsafe(settings)
    outcome = Outcome(shown, verdict.replace(data=None), unsafe, written=verdict.data is not None)
    if order.diff and verdict.data is not None:
        from ..reports.diff import difference

        outcome = outcome.replace(diff=difference(data, verdict.data, shown), written=False)
    elif order.rewriting and not order.diff and not verdict.failed:
        _print(data if verdict.data is None else verdict.data)
    from .report import finish

    return finish(Run((outcome,), order.rewriting), [found], given)


def _print(data: bytes) -> None:
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()
