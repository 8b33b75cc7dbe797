"""Decisions that the device can make: clipping by hand.

`if coefficient < 1: ...grad.mul_(coefficient)` multiplies by one where it is not less, which changes no number. So does
`if norm > limit: scale = limit / norm; ...grad.mul_(scale)`.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from .....edits import Edit, InsertBefore, Replace, Unwrap
from ....nodes import walk
from ...tensors.device_tensors import is_device_tensor

if TYPE_CHECKING:
    from ....script import Script


def decided_on_the_device(script: Script, statement: ast.AST) -> tuple[Edit, ...]:
    """The edits that take `if coefficient < 1:` away, around what only multiplies by the coefficient."""
    match statement:
        case ast.If(test=ast.Compare(left=left, ops=[op], comparators=[right]) as test, orelse=[]):
            pass
        case _:
            return ()
    block = script.block(statement)
    parent = script.parent(statement)
    if statement not in block or (isinstance(parent, ast.If) and statement in parent.orelse):
        return ()
    if isinstance(statement.body[0], ast.Assign):
        return _scaled_on_the_device(script, statement, test)
    if isinstance(op, (ast.Lt, ast.LtE)):
        coefficient, limit = left, right
    elif isinstance(op, (ast.Gt, ast.GtE)):
        coefficient, limit = right, left
    else:
        return ()
    if not (isinstance(coefficient, ast.Name) and isinstance(limit, ast.Constant)):
        return ()
    if limit.value != 1 or isinstance(limit.value, bool):
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


def _scaled_on_the_device(script: Script, statement: ast.If, test: ast.Compare) -> tuple[Edit, ...]:
    """The edits for `if norm > limit:`, where a scale is computed by arithmetic alone, and gradients are multiplied by it."""
    assigned, *rest = statement.body
    match assigned:
        case ast.Assign(targets=[ast.Name(id=name) as scale], value=ast.BinOp() as value):
            pass
        case _:
            return ()
    (other,) = test.comparators
    if not isinstance(test.ops[0], (ast.Lt, ast.LtE, ast.Gt, ast.GtE)):
        return ()
    norms = [n for n in (test.left, other) if isinstance(n, ast.Name)]
    norm = next((n for n in norms if is_device_tensor(script, n)), None)
    if norm is None or norm.id == name or not (_is_arithmetic(test.left) and _is_arithmetic(other)):
        return ()
    used = {n.id for n in walk(value) if isinstance(n, ast.Name)}
    if not _is_arithmetic(value) or norm.id not in used or name in used:
        return ()
    if not rest or not all(_only_multiplies(s, name) for s in rest):
        return ()
    if not _is_used_here_alone(script, statement, scale) or not is_device_tensor(script, value):
        return ()
    scope = script.index.scope(statement)
    where = script.spell("torch.where", scope)
    ones = script.spell("torch.ones_like", scope)
    text = f"{where}({script.segment(test)}, {{0}}, {ones}({norm.id}))"
    return Unwrap(statement), Replace(value, text, (value,))


def _is_arithmetic(node: ast.expr) -> bool:
    """True if computing `node`, of names, options and constants, does nothing else."""
    match node:
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub() | ast.Mult() | ast.Div(), right=right):
            return _is_arithmetic(left) and _is_arithmetic(right)
        case ast.Attribute(value=owner):
            return isinstance(owner, ast.Name)
        case ast.Constant(value=int() | float()) | ast.Name():
            return True
    return False


def _is_used_here_alone(script: Script, statement: ast.If, coefficient: ast.Name) -> bool:
    """True if nothing behind `statement` sees the coefficient."""
    scope = script.index.scope(coefficient)
    found = scope.find(coefficient.id)
    if found is None or found[0] is not scope or scope is script.module:
        return False
    inside = set(walk(statement))
    return all(
        node in inside or not isinstance(node.ctx, ast.Load) or node.lineno < statement.lineno
        for node, inner in script.index.names_of(found[0], coefficient.id)
        if inner.find(node.id) == found
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
