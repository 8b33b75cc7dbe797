"""Find known errors in a log and explain them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from typing import NamedTuple

from . import compilation, environment, processes, tensors
from .error import KnownError

ERRORS: tuple[KnownError, ...] = (
    *environment.ERRORS,
    *processes.ERRORS,
    *tensors.ERRORS,
    *compilation.ERRORS,
)
_WIDTH = 160  # of a quoted line
_RULE = re.compile(r"XLA\d+")


class Occurrence(NamedTuple):
    """A known error in a log: its first line (from 1), the text of that line, and how many lines match."""

    error: KnownError
    line: int
    text: str
    times: int


def find(lines: Iterable[str]) -> list[Occurrence]:
    """Return the known errors in the lines of a log, in the order of their first lines.

    A line counts for the first error of `ERRORS` that matches it.
    """
    found: dict[str, Occurrence] = {}
    for number, line in enumerate(lines, 1):
        error = _error_in(line)
        if error is not None:
            before = found.get(error.name)
            first = (
                Occurrence(error, number, line.strip()[:_WIDTH], 0) if before is None else before
            )
            found[error.name] = first._replace(times=first.times + 1)
    return sorted(found.values(), key=lambda one: one.line)


def _error_in(line: str) -> KnownError | None:
    if not _any_pattern().search(line):
        return None
    return next((error for error in ERRORS if re.search(error.pattern, line)), None)


@cache
def _any_pattern() -> re.Pattern[str]:
    """Return one pattern for all errors: most lines of a log match none."""
    named = re.compile(r"\(\?P<\w+>")
    return re.compile("|".join(f"(?:{named.sub('(?:', error.pattern)})" for error in ERRORS))


def text_of(found: Occurrence, source: str = "") -> str:
    """Return the explanation of one error as lines; `source` names the log."""
    where = f"{source}:{found.line}: " if source else ""
    times = f" ({found.times} lines)" if found.times > 1 else ""
    return "\n".join([f"{where}{found.text}{times}", *explained(found.error)])


def last_known(output: str) -> KnownError | None:
    """Return the last known error in the output of a failed program."""
    found = find(output.splitlines())
    return found[-1].error if found else None


def explained(error: KnownError | None) -> list[str]:
    """Return cause, fix and further reading of an error as indented lines; none without an error."""
    if error is None:
        return []
    lines = [f"  cause  {error.cause}", f"  fix    {error.fix}"]
    if error.see:
        lines.append(f"  see    {', '.join(map(_reference, error.see.split()))}")
    return lines


def _reference(word: str) -> str:
    return f"`xla-migrate explain {word}`" if _RULE.fullmatch(word) else f"docs/{word}"
