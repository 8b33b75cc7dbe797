"""What a step depends on if the script tests for NaN: `~torch.isnan(loss)` for `if torch.isnan(loss): continue`."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from ...nodes import walk
from .read_numbers import number_of, tensor_of

if TYPE_CHECKING:
    from ...script import Script

_FAULTS = frozenset({"isnan", "isfinite", "isinf"})


def good_step(script: Script, test: ast.AST) -> str:
    """Return the tensor by which a test for NaN lets the step be taken; empty for other tests."""
    conditions = []
    for call in walk(test):
        match call:
            case (
                ast.Call(func=ast.Attribute(attr=name) | ast.Name(id=name), args=[value])
                | ast.Call(func=ast.Attribute(attr=name, value=value), args=[])
            ) if name in _FAULTS:
                number = isinstance(value, ast.Call) and number_of(script, value)
                tensor = script.segment(tensor_of(number) if number else value)
                is_good, reduced = ("", ".all()") if name == "isfinite" else ("~", ".any()")
                is_reduced = getattr(script.parent(call), "attr", "") in ("any", "all")
                conditions.append(f"{is_good}torch.{name}({tensor}){reduced if is_reduced else ''}")
    return " & ".join(conditions)
