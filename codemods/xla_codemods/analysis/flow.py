"""Find the bindings of a name that reach a use of the name.

`x = x.to(device)` in a loop over `x`: what is read behind it is the new one, what is read in it the loop's. Judged by
blocks: a binding that stands before the use, in the same block or in one around it, hides all before it; what stands
between the two may have been run, and what stands in a loop around the use but not around the binding may have been
run in the turn before.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping

from .nodes import DEFINITIONS, LOOPS
from .scopes import Binding, Scope

_HEADED = (ast.For, ast.AsyncFor, ast.With, ast.AsyncWith)
_BLOCKS = ("body", "orelse", "finalbody")
# Bindings that leave something of the old value, or may not be run.
_PARTIAL = frozenset({"augment", "delete", "except", "match"})

Place = tuple[int, int]  # a line and a column


def reaching(
    bindings: list[Binding], use: ast.Name, home: Scope, parents: Mapping[ast.AST, ast.AST]
) -> list[Binding]:
    """Those of `bindings`, all of one name in the scope `home`, that a read of it at `use` may see."""
    if len(bindings) < 2:
        return bindings
    around = _around(use, home, parents)
    if around is None:
        return bindings
    place = (use.lineno, use.col_offset)
    last: Binding | None = None
    for binding in bindings:
        if _hides(binding, around, place, parents):
            if last is None or _start(binding.node) >= _start(last.node):
                last = binding
    if last is None:
        return bindings
    first = _start(last.node)
    loops = [
        n
        for n, child in around.items()
        if isinstance(n, LOOPS) and _start(n) > first and child is not getattr(n, "iter", None)
    ]
    if isinstance(last.node, LOOPS) and last.how == "for":
        loops = [n for n in loops if n is not last.node]
    return [
        b
        for b in bindings
        if b is last
        or (first < _start(b.node) < place and _is_run_before(b.node, around))
        or any(_start(n) <= _start(b.node) <= _end(n) for n in loops)
    ]


def _is_run_before(node: ast.AST, around: Mapping[ast.AST, ast.AST]) -> bool:
    """True if a binding that begins before the use is made before it: an assignment is not, of what stands in it."""
    if node not in around:
        return True
    if isinstance(node, (ast.For, ast.AsyncFor)):
        return around[node] is not node.iter
    return isinstance(node, (*_HEADED, ast.Match, ast.Try, ast.ExceptHandler))


def _around(
    use: ast.AST, home: Scope, parents: Mapping[ast.AST, ast.AST]
) -> dict[ast.AST, ast.AST] | None:
    """What `use` stands in, up to the scope's own node, each with the child that leads to `use`.

    None if another function reads it, which may run at any time.
    """
    chain: dict[ast.AST, ast.AST] = {}
    child: ast.AST = use
    while child is not home.node:
        parent = parents.get(child)
        if parent is None:
            return None
        chain[parent] = child
        if parent is not home.node and isinstance(parent, DEFINITIONS):
            return None
        child = parent
    return chain


def _hides(
    binding: Binding,
    around: Mapping[ast.AST, ast.AST],
    place: Place,
    parents: Mapping[ast.AST, ast.AST],
) -> bool:
    """True if `binding` was surely run before the use at `place`, and hides what was bound before it."""
    node = binding.node
    if binding.how == "parameter":
        return True
    if binding.how in _PARTIAL or not isinstance(node, ast.stmt):
        return False
    if node in around:  # the target of a loop or a `with`, in its body
        return isinstance(node, _HEADED) and around[node] in node.body
    if binding.how == "for" or (isinstance(node, ast.AnnAssign) and binding.value is None):
        return False  # behind the loop: it may have had no turn
    parent = parents.get(node)
    if parent is None or parent not in around or _start(node) >= place:
        return False
    child = around[parent]
    return any(_holds(parent, block, node) and _holds(parent, block, child) for block in _BLOCKS)


def has_run(statement: ast.stmt, node: ast.AST, parents: Mapping[ast.AST, ast.AST]) -> bool:
    """True if `statement` has begun to run whenever `node` runs: it stands before it, in a block around it."""
    owner = parents.get(statement)
    child, current = node, parents.get(node)
    while current is not None:
        if current is owner:
            return _start(statement) <= _start(child) and any(
                _holds(owner, block, statement) and _holds(owner, block, child) for block in _BLOCKS
            )
        child, current = current, parents.get(current)
    return False


def _holds(owner: ast.AST, name: str, child: ast.AST) -> bool:
    block = getattr(owner, name, None)
    return isinstance(block, list) and child in block


def _start(node: ast.AST) -> Place:
    if isinstance(node, ast.arg):
        return (0, 0)
    return (getattr(node, "lineno", 0), getattr(node, "col_offset", 0))


def _end(node: ast.AST) -> Place:
    return (getattr(node, "end_lineno", 0) or 0, getattr(node, "end_col_offset", 0) or 0)
