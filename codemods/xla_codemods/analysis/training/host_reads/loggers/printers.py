"""Functions of other modules that only print or log their arguments."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from .....patterns import Pattern
from ....nodes import walk
from ..readers.modules import function_elsewhere

if TYPE_CHECKING:
    from ....script import Script

_LEVELS = frozenset("debug info warning error critical".split())
_LOGGER = Pattern(r"log(?:ger|ging)?$")
_PURE = frozenset("abs float format int len max min print range repr round sorted str".split())
_TEXTS = frozenset("format items join keys ljust rjust values".split())
# Statements of a function that only shows something.
_PLAIN = (ast.Expr, ast.If, ast.For, ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Pass)


def is_shown_elsewhere(script: Script, call: ast.Call) -> bool:
    """True if `call` is of a function of another module that only prints or logs what it is given."""
    dotted = script.dotted(call.func)
    found = function_elsewhere(script, dotted) if dotted is not None else None
    if found is None:
        return False
    other, shown = found
    if shown.decorator_list or not _only_shows(shown):
        return False
    loggers = {n.func.value for n in walk(shown) if isinstance(n, ast.Call) and _is_logged(n)}  # type: ignore[attr-defined]
    names = [n for n in walk(shown) if isinstance(n, ast.Name) and n not in loggers]
    return not any(may_change(other, name) for name in names)


def may_change(other: Script, node: ast.Name) -> bool:
    """True if `node` is a name of the module that is bound again and again, or of things that methods change."""
    found = other.index.scope(node).find(node.id)
    if found is None or not isinstance(found[0].node, ast.Module):
        return False
    if all(b.how in {"import", "fallback", "def", "class"} for b in found[1]):
        return False
    if node.id in found[0].rebound:
        return True
    stored = re.compile(rf"\.{re.escape(node.id)}\s*(?:[-+*/]|//|\*\*)?=(?!=)")
    if other.project is not None and other.project.has_text(stored, node.id):
        return True
    made = found[1][0].value
    if isinstance(made, ast.Call):
        made = made.func
        return len(found[1]) != 1 or not (other.dotted(made) or "").startswith("logging.")
    return len(found[1]) != 1 or not isinstance(made, ast.Constant)


def _only_shows(function: ast.FunctionDef) -> bool:
    inside = [n for s in function.body for n in walk(s)]
    shows = False
    for node in inside:
        if isinstance(node, ast.stmt) and not isinstance(node, _PLAIN):
            return False
        if isinstance(node, (ast.Attribute, ast.Subscript)) and not isinstance(node.ctx, ast.Load):
            return False
        if isinstance(node, (ast.Lambda, ast.Yield, ast.YieldFrom, ast.Await, ast.NamedExpr)):
            return False
        if isinstance(node, ast.Call):
            if not _is_plain(node):
                return False
            shows = shows or _shows(node)
    return shows


def _is_plain(call: ast.Call) -> bool:
    if _shows(call):
        return True
    match call.func:
        case ast.Name(id=name):
            return name in _PURE and name != "print"
        case ast.Attribute(attr=name):
            return name in _TEXTS
    return False


def _shows(call: ast.Call) -> bool:
    match call.func:
        case ast.Name(id="print"):
            return all(k.arg in {"sep", "end", "flush"} for k in call.keywords)
    return _is_logged(call)


def _is_logged(call: ast.Call) -> bool:
    match call.func:
        case ast.Attribute(attr=level, value=ast.Name(id=owner)):
            return level in _LEVELS and _LOGGER.search(owner.lower()) is not None
    return False
