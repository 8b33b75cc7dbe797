"""Lists and dicts that are handed on before they are filled: whoever has them sees what is put in later, as it is on its way."""

from __future__ import annotations

import ast
import builtins
from typing import TYPE_CHECKING

from ..blocked import Blocked
from .bound import Owner

if TYPE_CHECKING:
    from ....script import Script

# What computes of a list, and keeps none.
_COMPUTING = ("json.", "math.", "numpy.", "statistics.", "torch.")
_TAKING_OVER = frozenset({"extend", "join", "update"})


def refuse_handed_on_before(script: Script, load: Owner, owner: Owner) -> None:
    """Raises `Blocked` where `load` hands on, before it is filled at `owner`, what may be kept: `history.append(losses)`."""
    if load is not owner and is_handed_on(script, load) and _is_before(script, load, owner):
        raise Blocked(f"`{ast.unparse(load)}` is handed on before it is filled")


def is_handed_on(script: Script, load: ast.expr) -> bool:
    """True if a call is given `load` that may keep it."""
    call = _taking(script, load)
    return call is not None and not _keeps_nothing(script, call)


def _taking(script: Script, load: ast.expr) -> ast.Call | None:
    """The call that is given `load`, as it is or in a list or dict."""
    node: ast.AST = load
    while isinstance(parent := script.parent(node), (ast.Tuple, ast.List, ast.Dict, ast.keyword)):
        node = parent
    return parent if isinstance(parent, ast.Call) and parent.func is not node else None


def _keeps_nothing(script: Script, call: ast.Call) -> bool:
    func = call.func
    scope = script.index.scope(call)
    if isinstance(func, ast.Name) and scope.find(func.id) is None:
        return hasattr(builtins, func.id)
    dotted = script.dotted(func, scope)
    if dotted is None:
        return isinstance(func, ast.Attribute) and func.attr in _TAKING_OVER
    return dotted.startswith(_COMPUTING)


def _is_before(script: Script, load: Owner, owner: Owner) -> bool:
    """True if `load` stands above what fills it, or above the calls of the function which does."""
    home, filling = script.function(load), script.function(owner)
    if home is filling:
        return load.lineno < owner.lineno
    if isinstance(load, ast.Attribute):
        return home is not None and home.name == "__init__"
    if filling is None:
        return False
    calls = script.index.calls_of(filling.name)
    return any(script.function(call) is home and load.lineno < call.lineno for call, _ in calls)
