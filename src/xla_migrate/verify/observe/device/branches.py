"""The `if` statement by which two graphs of a script differ."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from functools import cache
from typing import NamedTuple

from ..process import where

_WIDTH = 60  # of a condition that is quoted


class Branch(NamedTuple):
    """One branch of an `if` statement, and the lines in it."""

    file: str
    line: int
    condition: str
    is_else: bool
    first: int
    last: int


def differing(now: Sequence[tuple[str, ...]], before: Sequence[tuple[str, ...]]) -> str:
    """Return the first branch that only one of two graphs took, or "".

    Args:
        now: for each call of the new graph, the script's lines that led to it, innermost first.
        before: likewise, of an earlier graph.
    """
    ours, theirs = _taken(now), _taken(before)
    for branch in (*(b for b in ours if b not in theirs), *(b for b in theirs if b not in ours)):
        return f"if {branch.condition} ({branch.file}:{branch.line})"
    return ""


def _taken(stacks: Iterable[tuple[str, ...]]) -> dict[Branch, None]:
    """Return the branches in the order in which they were taken."""
    lines = dict.fromkeys(place for stack in stacks for place in reversed(stack))
    return {branch: None for place in lines for branch in _around(place)}


@cache
def _around(place: str) -> tuple[Branch, ...]:
    """Return the branches that a line is in, the outermost first."""
    file, _, line = place.rpartition(":")
    return tuple(b for b in _branches(file) if b.first <= int(line) <= b.last)


@cache
def _branches(file: str) -> tuple[Branch, ...]:
    try:
        with open(where.in_project(file), encoding="utf-8") as source:
            tree = ast.parse(source.read())
    except (OSError, ValueError, SyntaxError):
        return ()
    found = []
    for node in ast.walk(tree):
        for is_else, body in enumerate(_bodies(node)):
            if body:
                condition = _shortened(ast.unparse(node.test))  # type: ignore[attr-defined]
                last = body[-1].end_lineno or body[-1].lineno
                line = node.lineno  # type: ignore[attr-defined]
                branch = Branch(file, line, condition, bool(is_else), body[0].lineno, last)
                found.append(branch)
    return tuple(sorted(found, key=lambda b: (b.first, -b.last)))


def _bodies(node: ast.AST) -> tuple[Sequence[ast.stmt | ast.expr], ...]:
    if isinstance(node, ast.If):
        return node.body, node.orelse
    if isinstance(node, ast.IfExp) and node.body.lineno != node.orelse.lineno:
        return [node.body], [node.orelse]
    return ()


def _shortened(text: str) -> str:
    return text if len(text) <= _WIDTH else text[: _WIDTH - 3] + "..."
