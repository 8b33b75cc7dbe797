"""`# xla-migrate: ignore[XLA101]` and `# noqa: XLA101`: what a line says about itself; `ignore-file` about its file.

`ignore` takes codes, their beginnings (`XLA1`) and rules' names (`device-string`). `# noqa` takes whole codes, and may
be bare, as in other linters. An `ignore` that suppresses nothing is reported (XLA002).

A comment applies to its line. At the end of a statement of several lines (after a backslash, in a string, or moved there
by a formatter) it applies to the whole statement.
"""

from __future__ import annotations

import ast
import io
import re
import token
from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING

from .finding import LOW, WARNING, Finding
from .patterns import Pattern
from .prefilter import SUPPRESSION
from .source import Source

if TYPE_CHECKING:
    from tokenize import TokenInfo


_OURS = Pattern(
    r"#\s*xla-migrate:\s*ignore(?P<file>-file\b)?(?:\[(?P<codes>[^\]]*)\])?",
    re.IGNORECASE | re.UNICODE,
)
_NOQA = Pattern(
    r"#\s*noqa(?P<colon>:\s*(?P<codes>[A-Z][0-9A-Z]*(?:[,\s]+[A-Z][0-9A-Z]*)*))?",
    re.IGNORECASE | re.UNICODE,
)
_WORDS = (SUPPRESSION, "noqa", "NOQA")
_BLOCKS = ("body", "orelse", "handlers", "finalbody", "cases")
_BETWEEN = frozenset({token.COMMENT, token.NL, token.INDENT, token.DEDENT, token.ENCODING})


class _Suppression:
    __slots__ = ("codes", "column", "line", "of_file", "text", "used")

    def __init__(
        self, line: int, column: int, text: str, codes: frozenset[str], of_file: bool
    ) -> None:
        self.of_file = of_file
        self.line = line
        self.column = column
        self.text = text
        self.codes = codes  # empty: all
        self.used: set[str] = set()

    def covers(self, finding: Finding) -> bool:
        """Return True if it suppresses such a finding, and note that it is in use."""
        if not self.codes:
            self.used.add(finding.code)
            return True
        fitting = {c for c in self.codes if _fits(c, finding)}
        self.used |= fitting
        return bool(fitting)


def _fits(word: str, finding: Finding) -> bool:
    begins = word.startswith("XLA") and finding.code.startswith(word)
    return begins or word == finding.name.upper()


class Suppressions:
    """The suppressing comments of one file, by line."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.by_line: dict[int, list[_Suppression]] = {}
        self.speaks = source.mentions("xla", "noqa") and any(w in source.text for w in _WORDS)
        self.of_file: list[_Suppression] = []
        if self.speaks and SUPPRESSION in source.text:
            for found in _comments(self._tokens):
                if found.of_file:
                    self.of_file.append(found)
                else:
                    self.by_line.setdefault(found.line, []).append(found)

    @cached_property
    def _tokens(self) -> list[TokenInfo]:
        import tokenize  # few files need it

        try:
            return list(tokenize.generate_tokens(io.StringIO(self.source.text).readline))
        except (tokenize.TokenError, SyntaxError, IndentationError):
            return []

    @cached_property
    def _comments(self) -> dict[int, str]:
        return {t.start[0]: t.string for t in self._tokens if t.type == token.COMMENT}

    @cached_property
    def _last_lines(self) -> dict[int, int]:
        """The last line of the statement (or of its header) that a line is one of several of."""
        found: dict[int, int] = {}
        first = 0
        for part in self._tokens:
            if part.type == token.NEWLINE:
                if first < part.start[0]:
                    found.update(dict.fromkeys(range(first, part.start[0]), part.start[0]))
                first = 0
            elif not first and part.type not in _BETWEEN:
                first = part.start[0]
        return found

    @cached_property
    def _marked(self) -> list[int]:
        """Lines that may hold such a comment, found without the tokens, which take longer than all else here."""
        lines = enumerate(self.source.text.split("\n"), start=1)
        return [k for k, line in lines if any(word in line for word in _WORDS)]

    def _may_cover(self, finding: Finding) -> bool:
        if "\r" in self.source.text and "\n" not in self.source.text:
            return True
        end = max(finding.end_line, _end_of_statement(self.source.tree, finding.line))
        return any(finding.line <= line <= end for line in self._marked)

    def covers(self, finding: Finding) -> bool:
        """True if a comment on the first or last line of the finding's place, or of its statement, suppresses it."""
        # Every comment is checked, since each that covers the finding is in use.
        if self.of_file and any([s.covers(finding) for s in self.of_file]):  # noqa: C419
            return True
        if not self.speaks or not self._may_cover(finding):
            return False
        covered = False
        last = self._last_lines.get(finding.end_line, finding.end_line)
        for line in {finding.line, finding.end_line, last}:
            for suppression in self.by_line.get(line, ()):
                covered = suppression.covers(finding) or covered
            covered = covered or _is_noqa(self._comments.get(line, ""), finding.code)
        return covered

    def keeps(self, code: str, name: str, node: ast.AST) -> bool:
        """Return True if a comment suppresses the rule's findings at `node`, before the rule runs."""
        first = getattr(node, "lineno", 1)
        last = getattr(node, "end_lineno", None) or first
        wanted = (
            Suppressions(self.source) if self.speaks else self
        )  # these are in use only where something is found
        return wanted.covers(Finding(code, name, "", node, first, 1, last, 1, WARNING, LOW, None))

    def unused(self) -> Iterator[Finding]:
        """Our suppressions that suppressed nothing."""
        lines = (s for found in self.by_line.values() for s in found)
        for suppression in (*self.of_file, *lines):
            idle = sorted(suppression.codes - suppression.used)
            if suppression.used and not idle:
                continue
            what = ", ".join(idle) or "anything"
            place = ast.Module([], [])
            yield Finding(
                "XLA002",
                "unused-suppression",
                f"this comment does not suppress {what} {'in this file' if suppression.of_file else 'here'}:"
                " remove it",
                place,
                suppression.line,
                suppression.column,
                suppression.line,
                suppression.column + len(suppression.text),
                WARNING,
                LOW,
                None,
            )


def _end_of_statement(tree: ast.AST, line: int) -> int:
    """The last line of the innermost statement around `line`."""
    end, node = line, tree
    while True:
        blocks = (getattr(node, name, ()) for name in _BLOCKS)
        below = (s for block in blocks if isinstance(block, list) for s in block)
        inner = next((s for s in below if _spans(s, line)), None)
        if inner is None:
            return end
        end, node = getattr(inner, "end_lineno", None) or end, inner


def _spans(node: ast.AST, line: int) -> bool:
    if isinstance(node, ast.match_case):
        return any(_spans(statement, line) for statement in node.body)
    decorated = [d.lineno for d in getattr(node, "decorator_list", ())]
    first: int = min(decorated, default=getattr(node, "lineno", line + 1))
    return first <= line <= (getattr(node, "end_lineno", None) or first)


def _comments(tokens: list[TokenInfo]) -> Iterator[_Suppression]:
    for part in tokens:
        if part.type != token.COMMENT:
            continue
        match = _OURS.search(part.string)
        if match is not None:
            codes = frozenset(_codes(match["codes"]))
            column = part.start[1] + match.start() + 1
            yield _Suppression(
                part.start[0], column, match.group(), codes, match["file"] is not None
            )


def _codes(text: str | None) -> list[str]:
    """Return the codes between the brackets, one by one: none without brackets, `[]` if they are empty."""
    if text is None:
        return []
    return [code.upper() for code in re.split(r"[,\s]+", text.strip()) if code] or ["[]"]


def _is_noqa(comment: str, code: str) -> bool:
    """True if `comment` has a bare `# noqa`, or one that names `code`."""
    match = _NOQA.search(comment)
    if match is None:
        return False
    codes = re.findall(r"[A-Z]+\d+", (match["codes"] or "").upper())
    return not codes or code in codes
