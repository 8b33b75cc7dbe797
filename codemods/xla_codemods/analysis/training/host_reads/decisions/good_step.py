"""What a step depends on if the script tests for NaN: `~torch.isnan(loss)` for `if torch.isnan(loss): continue`."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from ....nodes import walk

if TYPE_CHECKING:
    from ....script import Script

_FAULTS = frozenset({"isnan", "isfinite", "isinf"})


def good_step(script: Script, test: ast.AST) -> str:
    """Return the tensor by which a test for NaN lets the step be taken: `~torch.isnan(loss)`; "" of other tests."""
    conditions = []
    for call in walk(test):
        match call:
            case ast.Call(func=ast.Attribute(attr=name) | ast.Name(id=name), args=[value]) if (
                name in _FAULTS
            ):
                pass
            case ast.Call(func=ast.Attribute(attr=name, value=value), args=[]) if name in _FAULTS:
                pass
            case _:
                continue
        whole = name == "isfinite"
        around = script.parent(call)
        reduced = isinstance(around, ast.Attribute) and around.attr in ("any", "all")
        among = (".all()" if whole else ".any()") if reduced else ""
        conditions.append(f"{'' if whole else '~'}torch.{name}({_tensor(script, value)}){among}")
    return " & ".join(conditions)


def _tensor(script: Script, value: ast.expr) -> str:
    match value:
        case ast.Call(func=ast.Attribute(value=inner, attr="item"), args=[]):
            return script.segment(inner)
        case ast.Call(func=ast.Name(id="float"), args=[inner]):
            return script.segment(inner)
    return script.segment(value)
