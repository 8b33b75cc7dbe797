"""Decisions that the device can make: clipping by hand.

`if coefficient < 1: ...grad.mul_(coefficient)` multiplies by one where it is not less, which changes no number.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from ....edits import Edit, InsertBefore, Unwrap
from ..tensors.device_tensors import is_device_tensor

if TYPE_CHECKING:
    from ...script import Script


def decided_on_the_device(script: Script, statement: ast.AST) -> tuple[Edit, ...]:
    """The edits that take `if coefficient < 1:` away, around what only multiplies by the coefficient."""
    match statement:
        case ast.If(test=ast.Compare(left=left, ops=[op], comparators=[right]) as test, orelse=[]):
            pass
        case _:
            return ()
    if isinstance(op, (ast.Lt, ast.LtE)):
        coefficient, limit = left, right
    elif isinstance(op, (ast.Gt, ast.GtE)):
        coefficient, limit = right, left
    else:
        return ()
    if not (isinstance(coefficient, ast.Name) and isinstance(limit, ast.Constant)):
        return ()
    block = script.block(statement)
    if limit.value != 1 or isinstance(limit.value, bool) or statement not in block:
        return ()
    parent = script.parent(statement)
    if isinstance(parent, ast.If) and statement in parent.orelse:
        return ()
    name = coefficient.id
    if not is_device_tensor(script, coefficient) or not _is_used_here_alone(
        script, statement, coefficient
    ):
        return ()
    if not all(_only_multiplies(s, name) for s in statement.body):
        return ()
    scope = script.index.scope(statement)
    where = script.spell("torch.where", scope)
    ones = script.spell("torch.ones_like", scope)
    text = f"{name} = {where}({script.segment(test)}, {name}, {ones}({name}))"
    return InsertBefore(statement, text), Unwrap(statement)


def _is_used_here_alone(script: Script, statement: ast.If, coefficient: ast.Name) -> bool:
    """True if nothing behind `statement` sees the coefficient."""
    scope = script.index.scope(coefficient)
    found = scope.find(coefficient.id)
    if found is None or found[0] is not scope or scope is script.module:
        return False
    inside = set(ast.walk(statement))
    return all(
        node in inside or not isinstance(node.ctx, ast.Load) or node.lineno < statement.lineno
        for node, inner in script.index.of(ast.Name)
        if node.id == coefficient.id and inner.find(node.id) == found
    )


def _only_multiplies(statement: ast.stmt, name: str) -> bool:
    """Loops over gradients that are multiplied in place by `name`."""
    match statement:
        case ast.For(body=body, orelse=[]) | ast.With(body=body):
            return all(_only_multiplies(s, name) for s in body)
        case ast.If(
            test=ast.Compare(ops=[ast.IsNot()], comparators=[ast.Constant(value=None)]),
            body=body,
            orelse=[],
        ):
            return all(_only_multiplies(s, name) for s in body)
        case ast.Expr(
            value=ast.Call(
                func=ast.Attribute(attr="mul_", value=owner), args=[ast.Name(id=by)], keywords=[]
            )
        ):
            return by == name and "grad" in ast.unparse(owner)
        case ast.AugAssign(target=target, op=ast.Mult(), value=ast.Name(id=by)):
            return by == name and ast.unparse(target).endswith((".grad", ".grad.data"))
    return False
