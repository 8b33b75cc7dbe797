"""Numbers that a step reads of a tensor, and hands on where the tensor could be handed on: `logger.update(loss=loss.item())`."""

from __future__ import annotations

import ast

from ..index import Index
from ..scopes import Scope


def tensor_behind(argument: ast.expr, scope: Scope, index: Index) -> ast.expr | None:
    """`loss` of `loss.item()`, and of a name for that, while `loss` is what it was."""
    match argument:
        case ast.Call(func=ast.Attribute(attr="item", value=owner), args=[], keywords=[]):
            return owner
        case ast.Name(id=name):
            found = scope.find(name)
            if found is None or found[0] is not scope or len(found[1]) != 1:
                return None
            value = found[1][0].value
            tensor = tensor_behind(value, scope, index) if value is not None else None
            if isinstance(tensor, ast.Name) and _is_computed(tensor, scope):
                return None if _changes(tensor, argument, scope, index) else tensor
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
        parent = index.parents.get(node)
        in_place = isinstance(parent, ast.Attribute) and parent.attr.endswith("_")
        if in_place or not isinstance(node.ctx, ast.Load):
            return True
    return False


def _place(node: ast.expr) -> tuple[int, int]:
    return node.lineno, node.col_offset
