"""Code that pins the host's memory, for faster copies to CUDA devices."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from ....patterns import Pattern

# How copies are made, by the names of arguments.
OF_COPIES = Pattern(r"_*(?:pin(?:_|$)|pinned|non_?blocking)")
PINS = Pattern(r"(?:^|\.)(?:pin\w*|is_pinned\(.*\))$")


def pins_memory(parts: Sequence[ast.AST]) -> bool:
    """Return True if `parts` only pin memory: `x = x.pin_memory()`."""
    return bool(parts) and all(map(_pins, parts))


def _pins(part: ast.AST) -> bool:
    match part:
        case ast.If(body=body, orelse=other):
            return pins_memory([*body, *other])
        case ast.For(body=body):
            return pins_memory(body)
        case (
            ast.Assign(value=value) | ast.Expr(value=value) | ast.Return(value=ast.expr() as value)
        ):
            return _pins(value)
        case ast.Call(func=ast.Attribute(attr="pin_memory")):
            return True
    return False
