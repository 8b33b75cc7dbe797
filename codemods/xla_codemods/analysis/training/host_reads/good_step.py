"""What a step depends on if the script tests for NaN: `~torch.isnan(loss)` for `if torch.isnan(loss): continue`."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from ...nodes import walk

if TYPE_CHECKING:
    from ...script import Script

_FAULTS = frozenset({"isnan", "isfinite", "isinf"})


def good_step(script: Script, test: ast.AST) -> str:
    """Return the tensor by which a test for NaN lets the step be taken: `~torch.isnan(loss)`; "" of other tests."""
    conditions = []
    for call in walk(test):
        match call:
            case (
                ast.Call(func=ast.Attribute(attr=name) | ast.Name(id=name), args=[value])
                | ast.Call(func=ast.Attribute(attr=name, value=value), args=[])
            ) if name in _FAULTS:
                conditions.append(_without_fault(script, call, name, _tensor(script, value)))
    return " & ".join(conditions)


def _without_fault(script: Script, call: ast.AST, name: str, tensor: str) -> str:
    around = script.parent(call)
    is_reduced = isinstance(around, ast.Attribute) and around.attr in ("any", "all")
    if name == "isfinite":
        return f"torch.isfinite({tensor}){'.all()' if is_reduced else ''}"
    return f"~torch.{name}({tensor}){'.any()' if is_reduced else ''}"


def _tensor(script: Script, value: ast.expr) -> str:
    match value:
        case ast.Call(func=ast.Attribute(value=inner, attr="item"), args=[]):
            return script.segment(inner)
        case ast.Call(func=ast.Name(id="float"), args=[inner]):
            return script.segment(inner)
    return script.segment(value)
