"""`# xla-migrate: ignore[XLA101]` and `# noqa: XLA101`: what a line says about itself.

A bare `# noqa` is honoured too, as other linters do; a suppression of ours that suppresses nothing is a
finding of its own (XLA002).
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from typing import TYPE_CHECKING

from .findings import LOW, WARNING, Finding
from .patterns import Pattern
from .source import Source
from .words import SUPPRESSION

if TYPE_CHECKING:
    from .script import Script

_OURS = Pattern(r"#\s*xla-migrate:\s*ignore(?:\[(?P<codes>[^\]]*)\])?", re.IGNORECASE)
_NOQA = Pattern(
    r"#\s*noqa(?P<colon>:\s*(?P<codes>[A-Z][0-9A-Z]*(?:[,\s]+[A-Z][0-9A-Z]*)*))?", re.IGNORECASE
)


class _Suppression:
    __slots__ = ("codes", "column", "line", "text", "used")

    def __init__(self, line: int, column: int, text: str, codes: frozenset[str]) -> None:
        self.line = line
        self.column = column
        self.text = text
        self.codes = codes  # empty: all
        self.used: set[str] = set()


class Suppressions:
    """The suppressing comments of one file, by line."""

    def __init__(self, source: Source) -> None:
        self.lines = source.lines
        self.by_line: dict[int, list[_Suppression]] = {}
        if SUPPRESSION in source.text:
            for found in _comments(source.text):
                self.by_line.setdefault(found.line, []).append(found)

    def covers(self, finding: Finding) -> bool:
        """Whether a comment on any line of the finding's place suppresses it."""
        covered = False
        for line in {finding.line, finding.end_line}:
            for suppression in self.by_line.get(line, ()):
                if not suppression.codes or finding.code in suppression.codes:
                    suppression.used.add(finding.code)
                    covered = True
            covered = covered or _is_noqa(self.lines[line - 1], finding.code)
        return covered

    def unused(self, script: Script) -> Iterator[Finding]:
        """Our suppressions that suppressed nothing."""
        for suppression in (s for found in self.by_line.values() for s in found):
            idle = sorted(suppression.codes - suppression.used)
            if suppression.used and not idle:
                continue
            what = ", ".join(idle) or "anything"
            place = ast.Module([], [])
            yield Finding(
                "XLA002",
                "unused-suppression",
                f"this comment does not suppress {what} here: remove it",
                place,
                suppression.line,
                suppression.column,
                suppression.line,
                suppression.column + len(suppression.text),
                WARNING,
                LOW,
                None,
            )


def _comments(text: str) -> Iterator[_Suppression]:
    try:
        tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
    except (tokenize.TokenError, SyntaxError, IndentationError):
        return
    for token in tokens:
        if token.type != tokenize.COMMENT:
            continue
        match = _OURS.search(token.string)
        if match is not None:
            codes = frozenset(re.findall(r"[A-Za-z]+\d+", (match["codes"] or "").upper()))
            column = token.start[1] + match.start() + 1
            yield _Suppression(token.start[0], column, match.group(), codes)


def _is_noqa(line: str, code: str) -> bool:
    """Whether `line` ends in a bare `# noqa`, or one that names `code`."""
    match = _NOQA.search(line) if "noqa" in line else None
    if match is None:
        return False
    codes = re.findall(r"[A-Z]+\d+", (match["codes"] or "").upper())
    return not codes or code in codes
