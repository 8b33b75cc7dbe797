"""Selections by a mask, `x[mask]`, in an expression that is to be computed of the whole tensor."""

from __future__ import annotations

import ast
import copy
from collections.abc import Sequence

from ...script import Script

# Methods whose result is the same before and after a selection.
_BY_ELEMENT = frozenset({"bool", "contiguous", "detach", "double", "float", "int", "long"})


def without_methods(node: ast.expr) -> ast.expr:
    """Return `y[mask]` of `y[mask].long()`."""
    match node:
        case ast.Call(func=ast.Attribute(attr=name, value=owner), args=[], keywords=[]):
            return without_methods(owner) if name in _BY_ELEMENT else node
    return node


def with_methods(script: Script, node: ast.expr) -> ast.expr:
    """Return `y[mask].long()`, around `y[mask]`."""
    around = script.parent(node)
    call = script.parent(around) if isinstance(around, ast.Attribute) else None
    if not isinstance(call, ast.Call) or call.func is not around or without_methods(call) is call:
        return node
    return with_methods(script, call)


def as_template(node: ast.expr, selections: Sequence[ast.expr], first: int = 0) -> str:
    """Return the text of `node` with holes in place of `selections`, numbered from `first`."""
    names = [f"_hole_{number}_" for number in range(first, first + len(selections))]
    holes = {id(each): ast.Name(name) for each, name in zip(selections, names)}
    text = ast.unparse(copy.deepcopy(node, holes)).replace("{", "{{").replace("}", "}}")
    for number, name in enumerate(names, first):
        text = text.replace(name, f"{{{number}}}")
    return text
