"""Kept texts that contain a read and so become deferred: `message = f"{step}: {loss.item():.4f}"`."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from .computing import METHODS_OF_VALUES
from .formatted import is_text

if TYPE_CHECKING:
    from ...script import Script

_TO_TEXT = frozenset({"ascii", "format", "repr", "str"})
_OF_NUMBERS = frozenset({"abs", "float", "int", "max", "min", "round"})
_OF_TEXTS = frozenset({"center", "ljust", "rjust"})
_PARTS = frozenset({"items", "values"})
_LISTED = (ast.Tuple, ast.List, ast.ListComp, ast.GeneratorExp, ast.comprehension)


def text_around(script: Script, node: ast.AST) -> ast.expr | None:
    """Return the largest text in the statement that contains `node`; None if the result is not a text."""
    found: ast.expr | None = None
    child, is_one = node, False  # whether `child` is a text
    while (parent := script.parent(child)) is not None:
        made = _makes_text(script, parent, child, is_one)
        if made is None:
            break
        child, is_one = parent, made
        if is_one and isinstance(parent, (ast.expr, ast.JoinedStr)):
            found = parent
    return found


def _makes_text(script: Script, parent: ast.AST, child: ast.AST, is_one: bool) -> bool | None:
    """True if `parent` makes a text of `child`, which is one or not; False for a part of one; None if it does more."""
    match parent:
        case ast.JoinedStr():
            return True
        case ast.FormattedValue() | ast.keyword():
            return False
        case ast.BinOp(op=ast.Mod(), left=left) if child is not left and is_text(left):
            return True
        case ast.BinOp(op=ast.Add()) if is_one:
            return True
        case ast.BinOp() | ast.UnaryOp(op=ast.USub() | ast.UAdd()) if not is_one:
            return False
        case ast.IfExp(test=test, body=body, orelse=other):
            return is_one if child is not test else is_text(body) and is_text(other)
        case ast.Compare() | ast.BoolOp() | ast.UnaryOp(op=ast.Not()):
            return False  # asked by such a test
        case ast.Attribute(attr=name):
            grandparent = script.parent(parent)
            is_called = isinstance(grandparent, ast.Call) and grandparent.func is parent
            known = name in _OF_TEXTS if is_one else name in _PARTS | METHODS_OF_VALUES
            return is_one if is_called and known else None
        case ast.Call(func=func) if child is func:
            return is_one
        case ast.Call(func=ast.Attribute(attr="format" | "join", value=ast.Constant(value=str()))):
            return True
        case ast.Call(func=ast.Name(id=name) as func) if not script.index.scope(func).find(name):
            return True if name in _TO_TEXT else (False if name in _OF_NUMBERS else None)
        case ast.Call(func=ast.Attribute() as func):
            return False if (script.dotted(func) or "").startswith("math.") else None
    return False if isinstance(parent, _LISTED) else None


def is_printed(script: Script, node: ast.AST) -> bool:
    """`print(message)`, `f"{message}"`, which take a deferred text like any object."""
    match script.parent(node):
        case ast.FormattedValue():
            return True
        case ast.Call(func=ast.Name(id="print") as func, args=args):
            return node in args and script.index.scope(func).find("print") is None
    return False
