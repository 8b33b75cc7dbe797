"""Find the bindings of a name that reach a use of the name.

`x = x.to(device)` in a loop over `x`: what is read behind it is the new one, what is read in it the loop's. Judged by
blocks: a statement that surely binds the name before the use, in the same block or in one around it, hides all bindings
before it; what stands between the two may have been run, and what stands in a loop around the use but not around the
binding may have been run in the turn before. A `with` runs its body, and an `if` one of its branches.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping

from .nodes import DEFINITIONS, LOOPS
from .scopes import Binding, Scope

_HEADED = (ast.For, ast.AsyncFor, ast.With, ast.AsyncWith)
_BLOCKS = ("body", "orelse", "finalbody")
# Statements whose blocks run at most once, and those that leave a block.
_RUN_ONCE = (ast.With, ast.AsyncWith, ast.If, ast.Try, ast.ExceptHandler)
_LEAVING = (ast.Return, ast.Raise, ast.Continue, ast.Break)
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
    binders = {b.node for b in bindings if _is_complete(b)}
    last: ast.AST | None = None
    for each in bindings:
        hiding = _hiding(each, binders, around, place, parents)
        if hiding is not None and (last is None or _start(hiding) >= _start(last)):
            last = hiding
    if last is None:
        return bindings
    first = _start(last)
    loops = [
        n
        for n, child in around.items()
        if isinstance(n, LOOPS) and _start(n) > first and child is not getattr(n, "iter", None)
    ]
    return [
        b
        for b in bindings
        if b.node is last
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


def _hiding(
    binding: Binding,
    binders: set[ast.AST],
    around: Mapping[ast.AST, ast.AST],
    place: Place,
    parents: Mapping[ast.AST, ast.AST],
) -> ast.AST | None:
    """Return the statement that surely bound the name before the use at `place`, by `binding` or in a branch next to it."""
    node = binding.node
    if binding.how == "parameter":
        return node
    if binding.how in _PARTIAL or not isinstance(node, ast.stmt):
        return None
    if node in around:  # the target of a loop or a `with`, in its body
        return node if isinstance(node, _HEADED) and around[node] in node.body else None
    top: ast.AST = node
    parent = parents[top]
    while parent not in around:
        if not isinstance(parent, _RUN_ONCE):
            return None
        top, parent = parent, parents[parent]
    child = around[parent]
    same = any(_holds(parent, block, top) and _holds(parent, block, child) for block in _BLOCKS)
    return _last_binding(top, binders) if same and _start(top) < place else None


def _is_complete(binding: Binding) -> bool:
    """True if the statement of `binding` binds the name whenever it runs: a loop may have no turn."""
    is_bare = isinstance(binding.node, ast.AnnAssign) and binding.value is None
    return binding.how not in _PARTIAL and binding.how != "for" and not is_bare


def _last_binding(statement: ast.AST, binders: set[ast.AST]) -> ast.AST | None:
    """Return the last statement of `statement` that surely binds the name, or None if it may run without it."""
    match statement:
        case _ if statement in binders:
            return statement
        case ast.With(body=body) | ast.AsyncWith(body=body):
            return _last_of(body, binders)
        case ast.If(body=body, orelse=orelse):
            branches = [body, orelse]
        case ast.Try(body=body, handlers=handlers, orelse=orelse, finalbody=final):
            if found := _last_of(final, binders):
                return found
            branches = [body + orelse, *(handler.body for handler in handlers)]
        case _:
            return None
    is_bound = all(_leaves(b) or _last_of(b, binders) is not None for b in branches)
    return statement if is_bound else None


def _last_of(block: list[ast.stmt], binders: set[ast.AST]) -> ast.AST | None:
    found = (_last_binding(statement, binders) for statement in reversed(block))
    return next((each for each in found if each is not None), None)


def _leaves(block: list[ast.stmt]) -> bool:
    return bool(block) and isinstance(block[-1], _LEAVING)


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
