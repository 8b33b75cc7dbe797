"""What other modules of the program do with what a function of this one returns: where they only add it up, and show it now
and then, they need no change.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from ....projects.attribute_uses import AttributeUse
from ...turns import Turn, in_each_turn
from ..blocked import Blocked
from ..trail import Held, Trail
from .elsewhere import call_at, name_of, script_of

if TYPE_CHECKING:
    from ....script import Script

_LOOPS = (ast.For, ast.AsyncFor, ast.While)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
Follow = Callable[[Trail, ast.Call, "Held | None"], None]


def given_elsewhere(trail: Trail, use: AttributeUse, held: Held | None, follow: Follow) -> None:
    """Follows what is returned at `use`, in another module; `Blocked` where that would have to change."""
    if trail.handed_by is not None:
        # An overriding method returns it to those who call the method that it overrides.
        if (use.path, name_of(use)) == trail.handed_by:
            return
        raise Blocked("modules hand it on to each other")
    other = script_of(trail.script, use.path)
    call = call_at(other, use)
    inner = Trail(other, frozenset(_in_each_turn(other, call)))
    inner.handed_by = _path(trail.script), name_of(use)
    try:
        follow(inner, call, held)
    except Blocked as blocked:
        raise Blocked(f"in `{use.path}` {blocked}") from blocked
    if inner.later or inner.texts:
        raise Blocked(f"`{use.path}` shows it in every step")
    if inner.changes:
        raise Blocked(f"`{use.path}` asks for Python's own number")


def _path(script: Script) -> str:
    return script.project.path if script.project is not None else script.path


def _in_each_turn(other: Script, call: ast.Call) -> Iterator[ast.AST]:
    """What runs as often as `call`: in the loop around it, or in its function and the loops that call that."""
    for node, _ in in_each_turn(other, list(_turns(other, call))):
        yield node


def _turns(other: Script, call: ast.Call) -> Iterator[Turn]:
    for ancestor in other.ancestors(call):
        if isinstance(ancestor, _LOOPS):
            yield Turn(ancestor, ancestor.body)
            return
        if isinstance(ancestor, _FUNCTIONS):
            yield Turn(ancestor, ancestor.body)
            for outer, _ in other.index.calls_of(ancestor.name):
                loops = (a for a in other.ancestors(outer) if isinstance(a, _LOOPS))
                if loop := next(loops, None):
                    yield Turn(loop, loop.body)
            return
