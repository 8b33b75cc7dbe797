"""`if` and `assert` statements that are evaluated later: what they show, and how they end the training."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, NamedTuple

from ....nodes import walk
from ..formatted import is_an_exit
from ..sinks import is_shown_on_a_console
from .ending import refuse_to_end_later

if TYPE_CHECKING:
    from ....script import Script


class Condition(NamedTuple):
    """A statement that shows something, or ends the training, if `test` holds; an assertion if it does not.

    Attributes:
        test: The condition.
        shows: `print("not finite", step)` and the like.
        how: It ends by "exit", "raise" or "assert"; or "" where it goes on.
        end: `sys.exit(1)`, what is raised, or an assertion's message.
    """

    test: ast.expr
    shows: tuple[ast.Call, ...] = ()
    how: str = ""
    end: ast.expr | None = None


def deferrable_condition(script: Script, statement: ast.AST) -> Condition | None:
    """What `statement` is, if it may be asked behind the step; `Blocked` where it would end the training there."""
    found = condition_of(script, statement)
    if found is None or not all(is_shown_on_a_console(script, call) for call in found.shows):
        return None
    if found.how:
        refuse_to_end_later(script, statement, _raised(found))
    return found if found.shows or found.how else None


def condition_of(script: Script, statement: ast.AST) -> Condition | None:
    """`statement`, if it is no more than calls and an end under one condition."""
    match statement:
        case ast.Assert(test=test, msg=message):
            return Condition(test, how="assert", end=message)
        case ast.If(test=test, body=[*before, last], orelse=[]):
            parent = script.parent(statement)
            if isinstance(parent, ast.If) and statement in parent.orelse:
                return None  # elif
        case _:
            return None
    how, end = _end(script, last)
    calls = [s.value for s in (before if how else statement.body) if isinstance(s, ast.Expr)]
    shows = tuple(call for call in calls if isinstance(call, ast.Call))
    if len(shows) < len(before) + (not how):
        return None
    return Condition(test, shows, how, end)


def _end(script: Script, statement: ast.stmt) -> tuple[str, ast.expr | None]:
    match statement:
        case ast.Raise(exc=ast.expr() as error, cause=None):
            return "raise", error
        case ast.Expr(value=call) if is_an_exit(script, call):
            return "exit", call
    return "", None


def _raised(found: Condition) -> str:
    """The name of what is raised."""
    if found.how != "raise":
        return {"exit": "SystemExit", "assert": "AssertionError"}[found.how]
    error = found.end.func if isinstance(found.end, ast.Call) else found.end
    return error.id if isinstance(error, ast.Name) else ""


def condition_nodes(condition: Condition) -> list[ast.AST]:
    """All of what it is made of."""
    parts = [condition.test, *condition.shows, *([condition.end] if condition.end else [])]
    return [node for part in parts for node in walk(part)]
