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
_TRACEBACK = re.compile(r"Traceback \(most recent call last\)")
_FRAME = re.compile(r'\bFile "(?P<file>[^"]+)", line (?P<line>\d+)')
_OF_A_PACKAGE = re.compile(r"[/\\](?:(?:site|dist)-packages|lib[/\\]python[\d.]+)[/\\]|^<")


class Occurrence(NamedTuple):
    """A known error in a log.

    Attributes:
        error: The error.
        line: The first line that matches (from 1).
        text: The text of that line.
        times: How many lines match.
        called_at: `file:line` of the last frame that is in no package, if frames of packages follow it.
    """

    error: KnownError
    line: int
    text: str
    times: int
    called_at: str = ""


def find(lines: Iterable[str]) -> list[Occurrence]:
    """Return the known errors in the lines of a log, in the order of their first lines.

    A line counts for the first error of `ERRORS` that matches it.
    """
    found: dict[str, Occurrence] = {}
    own = last = ""
    for number, line in enumerate(lines, 1):
        if _TRACEBACK.search(line):
            own = last = ""
        elif frame := _FRAME.search(line):
            last = f"{frame['file']}:{frame['line']}"
            own = own if _OF_A_PACKAGE.search(frame["file"]) else last
        error = _error_in(line)
        if error is not None:
            called_at = own if own != last else ""
            first = Occurrence(error, number, _shortened(line.strip()), 0, called_at)
            before = found.get(error.name, first)
            found[error.name] = before._replace(times=before.times + 1)
    return sorted(found.values(), key=lambda one: one.line)


def _shortened(text: str) -> str:
    return text if len(text) <= _WIDTH else f"{text[: _WIDTH - 3]}..."


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
    return "\n".join([f"{where}{found.text}{times}", *explained(found)])


def last_known(output: str) -> Occurrence | None:
    """Return the last known error in the output of a failed program."""
    found = find(output.splitlines())
    return found[-1] if found else None


def explained(found: Occurrence | None) -> list[str]:
    """Return place, cause, fix and further reading of an error as indented lines; none without an error."""
    if found is None:
        return []
    error = found.error
    lines = [f"  at     {found.called_at}"] if found.called_at else []
    lines += [f"  cause  {error.cause}", f"  fix    {error.fix}"]
    if error.see:
        lines.append(f"  see    {', '.join(map(_reference, error.see.split()))}")
    return lines


def _reference(word: str) -> str:
    return f"`xla-migrate explain {word}`" if _RULE.fullmatch(word) else f"docs/{word}"
