"""A finding: something in the source that is CUDA-only, slow or wrong on XLA."""

from __future__ import annotations

import ast
from typing import NamedTuple

from .edits import Edit
from .line_diff import opcodes

# Severity: fails or is silently wrong on XLA; slow, or wrong in some runs; worth knowing, and never fails a check.
ERROR, WARNING, INFO = "error", "warning", "info"
# Effort: how much work the user has left.
LOW, MEDIUM, HIGH = "low", "medium", "high"
# Safety of a fix: means the same on XLA, and on CUDA through the runtime; may change results, made when asked for.
SAFE, UNSAFE = "safe", "unsafe"


class Finding(NamedTuple):
    """A place and the message about it. Lines and columns count from 1, columns in characters.

    `severity`: `error` fails or is silently wrong on XLA; `warning` is slow, or wrong in some runs; `info` is
    worth knowing and never fails a check. `safety` is None if there is no fix: the user decides. `outlasts` is True if
    other fixes remove the code that shows the problem, but not the problem: the finding stays for the user.
    """

    code: str
    name: str
    message: str
    node: ast.AST
    line: int
    column: int
    end_line: int
    end_column: int
    severity: str
    effort: str
    safety: str | None
    edits: tuple[Edit, ...] = ()
    outlasts: bool = False


def with_outlasting(
    left: list[Finding], before: list[Finding], old: bytes, new: bytes
) -> list[Finding]:
    """`left` in the source `new`, and those found `before` in `old` that it shows no more; in order of place."""
    shown = {(f.code, f.line, f.column) for f in left}
    more = [
        f
        for f in moved_back([f for f in before if f.outlasts], new, old)
        if (f.code, f.line, f.column) not in shown
    ]
    return sorted([*left, *more], key=lambda f: (f.line, f.column)) if more else left


def moved_back(found: list[Finding], old: bytes, new: bytes) -> list[Finding]:
    """`found` in the source `new`, with the lines that it came from in `old`."""
    if not found:
        return found
    lines: dict[int, int] = {}
    for _, start, end, first, last in opcodes(old.splitlines(), new.splitlines()):
        for k in range(first, last):
            lines[k + 1] = min(start + k - first, max(start, end - 1)) + 1
    return [
        f._replace(line=lines.get(f.line, f.line), end_line=lines.get(f.end_line, f.end_line))
        for f in found
    ]
