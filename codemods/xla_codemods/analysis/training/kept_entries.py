"""Entries of a batch that a loop over its keys does not move: `v.to(device) if k != "lengths" else v`."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import partial

from ...flow.by_text import is_an_element
from ...flow.closure import reach
from ...flow.conditions import conditions, is_excluded
from ...flow.edges import sources
from ..nodes import walk
from ..parsed_file import ParsedFile
from ..syntax import texts_of

_DISPLAYS = (ast.Tuple, ast.List, ast.Set)


def kept_entries(script: ParsedFile, move: ast.AST) -> list[str]:
    """Return the keys, of those that conditions of `move` mention, for which it does not run."""
    parts = {part for test, _ in conditions(script, move) for part in walk(test)}
    keys = {text for part in parts for text in _compared(script, part)}

    def known(key: str, part: ast.expr) -> bool | None:
        texts = _compared(script, part)
        if not texts or not isinstance(part, ast.Compare):
            return None
        return (key in texts) is isinstance(part.ops[0], (ast.Eq, ast.In))

    return sorted(key for key in keys if is_excluded(script, move, partial(known, key)))


def _compared(script: ParsedFile, part: ast.AST) -> list[str]:
    """Return the texts that `part` compares the variable of a loop with: `k == "x"`, `k not in ("x", "y")`."""
    match part:
        case ast.Compare(left=left, ops=[ast.Eq() | ast.NotEq()], comparators=[right]):
            sides = [right] if _is_of_a_loop(script, left) else []
            return texts_of(sides or ([left] if _is_of_a_loop(script, right) else []))
        case ast.Compare(left=left, ops=[ast.In() | ast.NotIn()], comparators=[several]):
            return [*_texts(script, several)] if _is_of_a_loop(script, left) else []
    return []


def _texts(script: ParsedFile, several: ast.expr) -> Iterator[str]:
    for made in reach([several], partial(sources, script)):
        yield from texts_of(made.elts) if isinstance(made, _DISPLAYS) else ()


def _is_of_a_loop(script: ParsedFile, node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and is_an_element(node.id, script.index.scope(node))
