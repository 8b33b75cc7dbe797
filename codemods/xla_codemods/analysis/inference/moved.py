"""Values that a script moves only if there is an accelerator: `x.cuda() if cuda else x`, `if cuda: x = x.cuda()`.

It is on the accelerator then: without an accelerator, the device does not matter.
"""

from __future__ import annotations

import ast

from ..scopes import Binding
from .values import ACCEL, HOST, TENSOR, Value


def is_moved(node: ast.expr, name: str) -> bool:
    """True if `node` is `name.cuda()` or `name.to(...)`."""
    match node:
        case ast.Call(func=ast.Attribute(value=ast.Name(id=moved), attr="cuda" | "to")):
            return moved == name
    return False


def settled(name: str, bound: list[tuple[Binding, Value]]) -> list[Value]:
    """The values that `name` may have, without the one on the host that another of its bindings moves away."""
    if len(bound) > 1 and any(_is_placed(v) and _moves(b, name) for b, v in bound):
        return [v for _, v in bound if not (v.has(TENSOR) and v.has(HOST))]
    return [v for _, v in bound]


def _is_placed(value: Value) -> bool:
    return value.has(TENSOR) and value.has(ACCEL)


def _moves(binding: Binding, name: str) -> bool:
    value = binding.value
    if len(binding.path) == 1 and isinstance(value, (ast.Tuple, ast.List)):
        at = binding.path[0]
        value = value.elts[at] if 0 <= at < len(value.elts) else None
    elif binding.path:
        return False
    return binding.how == "assign" and value is not None and is_moved(value, name)
