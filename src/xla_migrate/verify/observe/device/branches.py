"""The `if` statement by which two graphs of a script differ."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from typing import NamedTuple

from ..process import where

_SCOPES = (ast.For, ast.AsyncFor, ast.While, ast.FunctionDef, ast.AsyncFunctionDef)
_WIDTH = 60  # of a condition that is quoted


class Branch(NamedTuple):
    """One branch of an `if` statement, the lines in it, and those of the loop or function around it.

    Lines of loops next to it do not belong to `around`: they run again without the `if`.
    """

    file: str
    line: int
    condition: str
    is_else: bool
    first: int
    last: int
    around: frozenset[int]

    @property
    def lines(self) -> range:
        return range(self.first, self.last + 1)


def differing(now: Sequence[tuple[str, ...]], before: Sequence[tuple[str, ...]]) -> str:
    """Return the first branch that only one of two graphs took, or "".

    Both have to run the code around the `if`: else the branch is not the reason why they differ.

    Args:
        now: for each call of the new graph, the script's lines that led to it, innermost first.
        before: likewise, of an earlier graph.
    """
    ours, theirs = _places(now), _places(before)
    taken, left = _taken(ours), _taken(theirs)
    for branch in (
        *(b for b in taken if b not in left and _passed(b, theirs)),
        *(b for b in left if b not in taken and _passed(b, ours)),
    ):
        return f"if {branch.condition} ({branch.file}:{branch.line})"
    return ""


def contains(branch: str, place: str) -> bool:
    """Return True if a `file:line` is in a branch that `differing` returned."""
    return any(branch.endswith(f"({one.file}:{one.line})") for one in _around(place))


def _places(stacks: Iterable[tuple[str, ...]]) -> list[str]:
    return list(dict.fromkeys(place for stack in stacks for place in reversed(stack)))


def _taken(places: Sequence[str]) -> dict[Branch, None]:
    """Return the branches in the order in which they were taken."""
    return {branch: None for place in places for branch in _around(place)}


def _passed(branch: Branch, places: Sequence[str]) -> bool:
    """Return True if code next to the branch has run, in the same loop or function."""
    lines = (
        int(line) for file, _, line in (p.rpartition(":") for p in places) if file == branch.file
    )
    return any(line in branch.around and line not in branch.lines for line in lines)


@cache
def _around(place: str) -> tuple[Branch, ...]:
    """Return the branches that a line is in, the outermost first."""
    file, _, line = place.rpartition(":")
    return tuple(b for b in _branches(file) if int(line) in b.lines)


@cache
def _branches(file: str) -> tuple[Branch, ...]:
    try:
        with open(where.in_project(file), encoding="utf-8") as source:
            tree = ast.parse(source.read())
    except (OSError, ValueError, SyntaxError):
        return ()
    found = list(_branches_in(tree, file, frozenset()))
    return tuple(sorted(found, key=lambda b: (b.first, -b.last)))


def _branches_in(node: ast.AST, file: str, around: frozenset[int]) -> Iterator[Branch]:
    if isinstance(node, _SCOPES):
        inner = (n for n in ast.walk(node) if isinstance(n, _SCOPES) and n is not node)
        around = frozenset(_lines(node.lineno, node)).difference(
            *(_lines(n.body[0].lineno, n) for n in inner)
        )
    for is_else, body in enumerate(_bodies(node)):
        if body:
            condition = _shortened(ast.unparse(node.test))  # type: ignore[attr-defined]
            last = body[-1].end_lineno or body[-1].lineno
            line = node.lineno  # type: ignore[attr-defined]
            yield Branch(file, line, condition, bool(is_else), body[0].lineno, last, around)
    for child in ast.iter_child_nodes(node):
        yield from _branches_in(child, file, around)


def _lines(first: int, node: ast.stmt) -> range:
    """Return the lines of `node` from `first` on."""
    return range(first, (node.end_lineno or first) + 1)


def _bodies(node: ast.AST) -> tuple[Sequence[ast.stmt | ast.expr], ...]:
    if isinstance(node, ast.If):
        return node.body, node.orelse
    if isinstance(node, ast.IfExp) and node.body.lineno != node.orelse.lineno:
        return [node.body], [node.orelse]
    return ()


def _shortened(text: str) -> str:
    return text if len(text) <= _WIDTH else text[: _WIDTH - 3] + "..."
