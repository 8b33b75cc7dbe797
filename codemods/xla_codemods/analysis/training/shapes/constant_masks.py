"""Masks that no data decide about, such as `~torch.eye(n, dtype=torch.bool)`: they select the same in every step."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ...syntax import keyword

if TYPE_CHECKING:
    from ...script import Script

_MADE = frozenset({"arange", "eye", "full", "ones", "tril_indices", "triu_indices", "zeros"})
_COMPUTED = frozenset({"logical_and", "logical_not", "logical_or", "tril", "triu"})
_METHODS = frozenset(
    "bool clone cuda contiguous fill_diagonal_ flatten logical_not repeat reshape t to tril triu unsqueeze view".split()
)
_MOST_NAMES = 3


def is_constant_mask(script: Script, node: ast.expr) -> bool:
    """Return True if `node` is a tensor of truth values that depends on sizes alone."""
    return _is_constant(script, node, _MOST_NAMES) and _is_boolean(script, node, _MOST_NAMES)


def _is_constant(script: Script, node: ast.expr, names: int) -> bool:
    match node:
        case ast.Constant():
            return True
        case ast.UnaryOp(operand=operand):
            return _is_constant(script, operand, names)
        case ast.BinOp(left=left, right=right) | ast.Compare(left=left, comparators=[right]):
            return _is_constant(script, left, names) and _is_constant(script, right, names)
        case ast.Call(func=func, args=args):
            home, _, name = (script.dotted(func) or "").rpartition(".")
            if home == "torch" and name in _MADE:
                return True
            if home == "torch" and name in _COMPUTED:
                return bool(args) and _is_constant(script, args[0], names)
            return (
                isinstance(func, ast.Attribute)
                and func.attr in _METHODS
                and _is_constant(script, func.value, names)
            )
        case ast.Subscript(value=whole, slice=ast.Tuple() | ast.Constant() | ast.Slice()):
            return _is_constant(script, whole, names)
        case ast.Name() | ast.Attribute():
            values = list(_values(script, node))
            return (
                names > 0
                and bool(values)
                and all(v is not None and _is_constant(script, v, names - 1) for v in values)
            )
    return False


def _is_boolean(script: Script, node: ast.expr, names: int) -> bool:
    match node:
        case ast.Compare():
            return True
        case ast.UnaryOp(op=ast.Invert(), operand=operand):
            return _is_boolean(script, operand, names)
        case ast.BinOp(op=ast.BitAnd() | ast.BitOr(), left=left, right=right):
            return _is_boolean(script, left, names) and _is_boolean(script, right, names)
        case ast.Call(func=func, args=args):
            named = [keyword(node, "dtype"), *args]
            if any(script.dotted(part) == "torch.bool" for part in named if part is not None):
                return True
            name = func.attr if isinstance(func, ast.Attribute) else ""
            if name in {"bool", "logical_not", "logical_and", "logical_or"}:
                return True
            inside = (
                args[:1]
                if script.dotted(func)
                else [func.value]
                if isinstance(func, ast.Attribute)
                else []
            )
            return any(_is_boolean(script, part, names) for part in inside)
        case ast.Subscript(value=whole):
            return _is_boolean(script, whole, names)
        case ast.Name() | ast.Attribute() if names > 0:
            return all(
                v is not None and _is_boolean(script, v, names - 1) for v in _values(script, node)
            )
    return False


def _values(script: Script, node: ast.Name | ast.Attribute) -> Iterator[ast.expr | None]:
    """Yield the values that `node` may have; None for one that is not written out."""
    if isinstance(node, ast.Name):
        for binding in script.reaching(node):
            yield binding.value if binding.how == "assign" and not binding.path else None
        return
    for statement, _ in script.index.assignments(ast.unparse(node)):
        yield statement.value
    for call, _ in script.index.calls_of("register_buffer"):
        match call.args:
            case [ast.Constant(value=name), value, *_] if name == node.attr:
                yield value
