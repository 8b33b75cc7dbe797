"""Lines below a changed line stay aligned with the bracket in which they stand."""

from __future__ import annotations

import io
import tokenize
from collections.abc import Iterator
from typing import NamedTuple

from ..line_diff import opcodes


class Replaced(NamedTuple):
    """The original of a changed line: its number, and the length of the longest line that was replaced with it."""

    line: int
    longest: int


def replaced_lines(text: list[str], original: list[str]) -> dict[int, Replaced]:
    """Return the original of each line of `text` that was changed; inserted lines have none."""
    found = {}
    for kind, i1, i2, j1, j2 in opcodes(original, text):
        if kind == "replace":
            longest = max(map(len, original[i1:i2]))
            for k in range(j1, j2):
                found[k] = Replaced(max(i1, i2 - (j2 - k)), longest)
    return found


def aligned(text: str, original: str, length: int) -> str:
    """Return `text`, with the lines moved that were aligned with a bracket of a changed line.

    Below lines that are longer than `length` and than their originals, which will be split, they stay.
    """
    before, lines = original.split("\n"), text.split("\n")
    known = set(before)
    changed = [k for k, line in enumerate(lines[:-1]) if line not in known and _goes_on(line)]
    if not changed:
        return text
    replaced = replaced_lines(lines, before)
    for k in changed:
        if k in replaced and len(lines[k]) <= max(length, replaced[k].longest):
            _move(lines, k, before[replaced[k].line])
    return "\n".join(lines)


def _goes_on(line: str) -> bool:
    code = line.rstrip()
    is_open = sum(map(code.count, "([{")) > sum(map(code.count, ")]}"))
    return is_open and not code.endswith(("(", "[", "{"))


def _move(lines: list[str], first: int, before: str) -> None:
    """Move the lines below `first`, which was `before`, as far as the brackets that both leave open."""
    innermost = zip(reversed(_open(before)), reversed(_open(lines[first])), strict=False)
    start = first + 1
    for old, new in innermost:
        end = _end(lines, first, new)
        if old == new or not end or (start < end and indent_of(lines[start]) != old + 1):
            return
        for k in range(start, end):
            if lines[k].strip() and indent_of(lines[k]) > old:
                lines[k] = " " * (indent_of(lines[k]) + new - old) + lines[k].lstrip()
        start = max(start, end)


def indent_of(line: str) -> int:
    """Return the number of columns before the code of `line`."""
    return len(line) - len(line.lstrip())


def last_open(line: str) -> int | None:
    """Return the column of the last bracket that `line` opens and does not close."""
    return max(_open(line), default=None)


def _open(line: str) -> list[int]:
    """Return the columns of the brackets that `line` opens and does not close."""
    columns: list[int] = []
    for token in code_tokens(line.strip()):
        if opens(token):
            columns.append(token.start[1] + indent_of(line))
        elif closes(token) and columns:
            columns.pop()
    return columns


def _end(lines: list[str], first: int, column: int) -> int:
    """Return the number of the line below the one that closes the bracket; 0 if strings of several lines stand in it."""
    depth = 0
    for token in code_tokens("\n".join([lines[first][column:], *lines[first + 1 :]])):
        if token.start[0] != token.end[0] and token.string.strip():
            return 0
        depth += opens(token) - closes(token)
        if not depth:
            return first + token.end[0]
    return 0


_FSTRING_START = getattr(tokenize, "FSTRING_START", None)
_FSTRING_END = getattr(tokenize, "FSTRING_END", None)
_OPENING, _CLOSING = frozenset("([{"), frozenset(")]}")


def code_tokens(text: str) -> Iterator[tokenize.TokenInfo]:
    """Yield the tokens outside f-strings, up to the first that is wrong: the rest of a statement may be missing."""
    strings = 0
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == _FSTRING_START:
                strings += 1
            elif token.type == _FSTRING_END:
                strings -= 1
            elif not strings:
                yield token
    except (tokenize.TokenError, IndentationError, SyntaxError):
        return


def opens(token: tokenize.TokenInfo) -> bool:
    """Return True if `token` is an opening bracket."""
    return token.type == tokenize.OP and token.string in _OPENING


def closes(token: tokenize.TokenInfo) -> bool:
    """Return True if `token` is a closing bracket."""
    return token.type == tokenize.OP and token.string in _CLOSING
