"""Calls whose elements are those of another iterable: `enumerate`, `zip`, `islice`, `sorted`."""

from __future__ import annotations

import ast

from ..analysis.syntax import name_of

_ORDERING = frozenset({"list", "reversed", "sorted", "tuple"})
_GIVING = _ORDERING | {"enumerate", "islice", "zip"}


def gives_elements(node: ast.AST | None) -> bool:
    """Return True for a call that `iterable_of` may look through."""
    return isinstance(node, ast.Call) and name_of(node.func) in _GIVING


def iterable_of(iterable: ast.expr, path: tuple[int, ...]) -> tuple[ast.expr, tuple[int, ...]]:
    """Return the iterable below `enumerate`, `zip`, `islice`, `list` and the like that gives the part at `path` of an element, and
    the path in its own elements.
    """
    while True:
        match iterable:
            case ast.Call(func=ast.Name(id="enumerate"), args=[inner, *_]) if path[:1] == (1,):
                iterable, path = inner, path[1:]
            case ast.Call(func=ast.Name(id="zip"), args=parts) if path and path[0] < len(parts):
                iterable, path = parts[path[0]], path[1:]
            case ast.Call(
                func=ast.Name(id="islice") | ast.Attribute(attr="islice"), args=[inner, *_]
            ):
                iterable = inner
            case ast.Call(func=ast.Name(id=name), args=[inner]) if name in _ORDERING:
                iterable = inner
            case _:
                return iterable, path
