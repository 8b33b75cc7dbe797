"""`if` and `assert` statements that are evaluated later: what they show, and how they end the training.

A check such as `if not math.isfinite(loss): sys.exit(1)` ends a few steps later as it would have
ended in its step, because output and checkpoints of later steps wait for it.
"""

from __future__ import annotations

import ast
import builtins
from typing import NamedTuple

from ....flow.closure import reach
from ...loops import STEP
from ...nodes import walk
from ...scopes import FunctionNode
from ...script import Script
from ...syntax import caught, is_elif
from ..training import Loop
from ..turns import is_an_exit
from .deferral import Deferral
from .functions import callers_of, is_tried
from .sinks import goes_on_after, runs_to_its_end

_ENDS = "the check ends the training, and"
# Exceptions that handlers catch when a training is only interrupted.
_INTERRUPTS = frozenset({"GeneratorExit", "KeyboardInterrupt", "StopIteration"})


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


def condition_of(script: Script, statement: ast.AST) -> Condition | None:
    """`statement`, if it is no more than calls and an end under one condition."""
    match statement:
        case ast.Assert(test=test, msg=message):
            return Condition(test, how="assert", end=message)
        case ast.If(test=test, body=[*before, last], orelse=[]) if not is_elif(
            statement, script.parents
        ):
            pass
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


def condition_nodes(condition: Condition) -> list[ast.AST]:
    """All of what it is made of."""
    parts = [condition.test, *condition.shows, *([condition.end] if condition.end else [])]
    return [node for part in parts for node in walk(part)]


def refuse_to_end_later(deferral: Deferral, statement: ast.stmt, condition: Condition) -> None:
    """The check stays unless it stands in a loop that waits at its end, and nothing may catch the error."""
    script = deferral.script
    if script.path.endswith(".ipynb"):
        deferral.refuse(f"{_ENDS} a notebook's kernel keeps the changed weights")
    start: list[ast.AST] = [statement]
    reached = reach(start, lambda node: _calls_around(script, node))
    loops = [_loop_that_steps(script, node) for node in reached if not _calls_around(script, node)]
    for loop in loops:
        if loop is None or not goes_on_after(loop):
            deferral.refuse(
                f"{_ENDS} no loop contains it, or `return`, `else` or `yield` leaves the loop"
            )
        elif not (loop.fed and runs_to_its_end(loop)):
            deferral.wait_after(loop.node)
    if any(is_tried(script, node) for node in reached):
        deferral.refuse(f"{_ENDS} a `try` statement contains it")
    if _saves_at_once(script):
        deferral.refuse(f"{_ENDS} `torch.distributed.checkpoint` may save weights before that")
    if condition.how != "exit" and not _is_only_called_here(script, statement):
        deferral.refuse(f"{_ENDS} unknown callers may continue")
    if line := _may_catch(script, _raised(condition)):
        deferral.refuse(f"{_ENDS} line {line} may catch the exception, or save")


def _calls_around(script: Script, node: ast.AST) -> list[ast.Call]:
    """Return the calls of the function of `node`, unless a loop in it steps."""
    function = script.function(node)
    if function is None or _loop_that_steps(script, node) is not None:
        return []
    return callers_of(script, function)


def _loop_that_steps(script: Script, node: ast.AST) -> Loop | None:
    loop: Loop | None = script.training.loop_of(node)
    while loop is not None and not (loop.fed or STEP in loop.effects):
        loop = script.training.loop_of(loop.node)
    is_of_function = loop is not None and script.function(loop.node) is script.function(node)
    return loop if is_of_function else None


def _is_only_called_here(script: Script, statement: ast.stmt) -> bool:
    """Return True if the error leaves the program through functions of this file alone."""

    def around(function: FunctionNode | None) -> list[FunctionNode | None]:
        calls = callers_of(script, function) if function is not None else []
        return [script.function(call) for call in calls]

    functions = reach([script.function(statement)], around)
    return all(function is None or callers_of(script, function) for function in functions)


def _raised(condition: Condition) -> str:
    """Return the name of the error."""
    if condition.how != "raise":
        return {"exit": "SystemExit", "assert": "AssertionError"}[condition.how]
    error = condition.end.func if isinstance(condition.end, ast.Call) else condition.end
    return error.id if isinstance(error, ast.Name) else ""


def _may_catch(script: Script, raised: str) -> int:
    """Return the line after which the program may go on, or save the weights; 0 if there is none."""
    for node, _ in script.index.of(ast.Try):
        imports = all(isinstance(s, (ast.Import, ast.ImportFrom, ast.Assign)) for s in node.body)
        kinds = {kind for handler in node.handlers for kind in caught(handler)}
        if not imports and any(_may_be(script, raised, kind) for kind in kinds):
            return node.lineno
        if any("save" in ast.unparse(s) for s in node.finalbody):
            return node.lineno
    suppressed = script.index.calls_of("suppress")
    return next((call.lineno for call, _ in suppressed), 0)


def _may_be(script: Script, raised: str, kind: str) -> bool:
    """Return True if an error called `raised` may be one of those called `kind`."""
    kinds = reach([raised], lambda error: _bases(script, error))
    known = getattr(builtins, kind, None)
    name = known.__name__ if isinstance(known, type) else kind  # `IOError` is `OSError`
    return kind not in _INTERRUPTS and ("" in kinds or name in kinds)


def _bases(script: Script, error: str) -> list[str]:
    """Return the names of the base classes of an error; an empty one if they are unknown."""
    match [binding.node for binding in script.module.bindings.get(error, ())]:
        case [ast.ClassDef(bases=bases)]:
            return [ast.unparse(base) for base in bases]
        case []:
            known = getattr(builtins, error, None)
            if isinstance(known, type):
                return [known.__name__, *(base.__name__ for base in known.__bases__)]
    return [""]


def _saves_at_once(script: Script) -> bool:
    """Return True if weights are written without waiting for the output before."""
    return any(
        (script.dotted(call.func) or "").startswith("torch.distributed.checkpoint.")
        for name in ("async_save", "save", "save_state_dict")
        for call, _ in script.index.calls_of(name)
    )
