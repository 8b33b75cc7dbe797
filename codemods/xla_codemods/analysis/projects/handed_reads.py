"""Numbers that a step reads and passes on, although the tensor could be passed on: `logger.update(loss=loss.item())`."""

from __future__ import annotations

import ast

from ..index import Index
from ..scopes import Scope


def tensor_behind(argument: ast.expr, scope: Scope, index: Index) -> ast.expr | None:
    """`loss` of `loss.item()`, and of a name for that, while `loss` is what it was."""
    if not isinstance(argument, ast.Name):
        return _read(argument)
    found = scope.find(argument.id)
    if found is None or found[0] is not scope or len(found[1]) != 1:
        return None
    (bound,) = found[1]
    tensor = _read(bound.value) if bound.how == "assign" and not bound.path else None
    if not isinstance(tensor, ast.Name) or not _is_computed(tensor, scope):
        return None
    return None if _changes(tensor, argument, scope, index) else tensor


def _read(node: ast.expr | None) -> ast.expr | None:
    match node:
        case ast.Call(func=ast.Attribute(attr="item", value=owner), args=[], keywords=[]):
            return owner
    return None


def _is_computed(tensor: ast.Name, scope: Scope) -> bool:
    """True for a result, which is no parameter that the optimizer changes."""
    found = scope.find(tensor.id)
    return found is not None and all(
        b.how in {"assign", "augment"} and isinstance(b.value, (ast.Call, ast.BinOp))
        for b in found[1]
    )


def _changes(tensor: ast.Name, until: ast.expr, scope: Scope, index: Index) -> bool:
    """True if `tensor` may be another, or hold another value, at `until`, which stands below."""
    if _place(until) < _place(tensor):
        return True
    for node, inner in index.of(ast.Name):
        between = _place(tensor) < _place(node) < _place(until)
        if node.id != tensor.id or inner is not scope or not between:
            continue
        if not isinstance(node.ctx, ast.Load) or _is_in_place(node, index):
            return True
    return False


def _is_in_place(node: ast.AST, index: Index) -> bool:
    """True for `loss.mul_(2)` and `loss.data.div_(n)`."""
    while isinstance(parent := index.parents.get(node), ast.Attribute):
        if parent.attr.endswith("_"):
            return True
        node = parent
    return False


def _place(node: ast.expr) -> tuple[int, int]:
    return node.lineno, node.col_offset
