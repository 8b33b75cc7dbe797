"""`xla-migrate -`: a source on standard input, the new one on standard output."""

from __future__ import annotations

import os
import sys

from ...files.find import FoundFile
from ...results import FileOutcome, Run
from ..work import RunOptions, verdict_on

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...settings import Finder
    from ..arguments import Arguments


def run_stdin(given: Arguments, options: RunOptions, finder: Finder) -> int:
    """Judge standard input as if it were the file `--stdin-filename`; the exit code."""
    shown = given.stdin_filename or "<stdin>"
    path = os.path.abspath(given.stdin_filename or "stdin.py")
    folder = os.path.dirname(path)
    settings = finder.of(folder)
    data = sys.stdin.buffer.read()
    found = FoundFile(path, shown, settings, True, folder)
    if given.force_exclude and given.stdin_filename and settings.excludes_named(path):
        if options.rewriting and not options.diff:
            _print(data)
        return 0
    from ..checks import check_settings

    check_settings(settings)
    verdict = verdict_on(data, found, options)
    unsafe = options.is_unsafe(settings)
    outcome = FileOutcome(
        shown, verdict.replace(data=None), unsafe, written=verdict.data is not None
    )
    if options.diff and verdict.data is not None:
        from ...reports.diff import difference, in_original

        left = in_original(verdict.left, data, verdict.data, shown)
        patch = difference(data, verdict.data, shown)
        plain = outcome.verdict.replace(left=left)
        outcome = outcome.replace(verdict=plain, diff=patch, written=False)
    elif options.rewriting and not options.diff and not verdict.failed:
        if verdict.data is not None:
            outcome = outcome.replace(left_path="<stdout>")
        _print(data if verdict.data is None else verdict.data)
        _tell_of_a_copy(verdict.data or b"")
    from .report import finish

    return finish(Run((outcome,), options.rewriting), [found], given, options)


def _tell_of_a_copy(data: bytes) -> None:
    from ...files.vendored import NAME

    if f"import {NAME}".encode() in data:
        note = f"the script imports {NAME}; to have it written, pass the script as a file"
        print(f"xla-migrate: {note}", file=sys.stderr)


def _print(data: bytes) -> None:
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()
    if data and not data.endswith(b"\n") and sys.stdout.isatty() and sys.stderr.isatty():
        print(file=sys.stderr)  # or the first finding would stand behind the last line
