"""Masks that no data decide about, such as `~torch.eye(n, dtype=torch.bool)`: they select the same in every step."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias

from ....flow.closure import reach
from ...syntax import keyword

if TYPE_CHECKING:
    from ...script import Script

# The expressions that decide about an expression: none if it decides itself, None if it is unknown.
Deciding: TypeAlias = "Sequence[ast.expr | None] | None"

_MADE = frozenset({"arange", "eye", "full", "ones", "tril_indices", "triu_indices", "zeros"})
_COMPUTED = frozenset({"flip", "logical_and", "logical_not", "logical_or", "roll", "tril", "triu"})
_LOGICAL = frozenset({"bool", "logical_and", "logical_not", "logical_or"})
_METHODS = frozenset(
    (
        "bool clone cuda contiguous expand fill_diagonal_ flatten flip logical_not permute repeat reshape roll squeeze t to "
        "transpose tril triu unsqueeze view"
    ).split()
)


def is_constant_mask(script: Script, node: ast.expr) -> bool:
    """Return True if `node` is a tensor of truth values that depends on sizes alone."""
    return _holds(script, node, _sizes_alone) and _holds(script, node, _truth_values)


def _holds(
    script: Script, node: ast.expr, deciding: Callable[[Script, ast.expr], Deciding]
) -> bool:
    """Return True if nothing unknown is among the expressions that decide about `node`, directly or not."""
    decided: dict[ast.expr | None, Deciding] = {None: None}

    def step(part: ast.expr | None) -> Sequence[ast.expr | None]:
        if part is not None:
            decided[part] = deciding(script, part)
        return decided[part] or ()

    start: list[ast.expr | None] = [node]
    return all(decided[part] is not None for part in reach(start, step))


def _sizes_alone(script: Script, node: ast.expr) -> Deciding:
    match node:
        case ast.Constant():
            return []
        case ast.UnaryOp(operand=operand):
            return [operand]
        case ast.BinOp(left=left, right=right) | ast.Compare(left=left, comparators=[right]):
            return [left, right]
        case ast.Call(func=func, args=args):
            home, _, name = (script.dotted(func) or "").rpartition(".")
            if home == "torch" and name in _MADE:
                return []
            if home == "torch" and name in _COMPUTED:
                return args[:1] or None
            is_method = isinstance(func, ast.Attribute) and func.attr in _METHODS
            return [func.value] if is_method and isinstance(func, ast.Attribute) else None
        case ast.Subscript(value=whole, slice=ast.Tuple() | ast.Constant() | ast.Slice()):
            return [whole]
        case ast.Name() | ast.Attribute():
            return _values(script, node) or None
    return None


def _truth_values(script: Script, node: ast.expr) -> Deciding:
    match node:
        case ast.Compare():
            return []
        case ast.UnaryOp(op=ast.Invert(), operand=operand):
            return [operand]
        case ast.BinOp(op=ast.BitAnd() | ast.BitOr(), left=left, right=right):
            return [left, right]
        case ast.Call(func=func, args=args):
            named = [keyword(node, "dtype"), *args]
            if any(script.dotted(part) == "torch.bool" for part in named if part is not None):
                return []
            method = func.attr if isinstance(func, ast.Attribute) else ""
            if method in _LOGICAL:
                return []
            if script.dotted(func):
                return args[:1] or None
            return [func.value] if isinstance(func, ast.Attribute) else None
        case ast.Subscript(value=whole):
            return [whole]
        case ast.Name() | ast.Attribute():
            return _values(script, node) or None
    return None


def _values(script: Script, node: ast.Name | ast.Attribute) -> list[ast.expr | None]:
    """Return the values that `node` may have; None stands for one that is not written out."""
    if isinstance(node, ast.Name):
        return [
            binding.value
            if binding.how == "assign" and not binding.path and isinstance(binding.value, ast.expr)
            else None
            for binding in script.reaching(node)
        ]
    found: list[ast.expr | None] = [
        statement.value for statement, _ in script.index.assignments(ast.unparse(node))
    ]
    for call, _ in script.index.calls_of("register_buffer"):
        match call.args:
            case [ast.Constant(value=name), value, *_] if name == node.attr:
                found.append(value)
    return found
