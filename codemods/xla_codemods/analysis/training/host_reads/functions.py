"""Functions of numbers on their way, and functions of this file that take them."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, NamedTuple

from ...inference.values import ARRAY, INSTANCE, MODULE

if TYPE_CHECKING:
    from ...scopes import FunctionNode
    from ...script import Script

_CHANGING = frozenset({ARRAY, INSTANCE, MODULE})
_EXTREMES = frozenset({"max", "min"})
_OF_ONE = frozenset({"abs", "float", "int", "round"})
_OF_MATH = frozenset("exp log log10 log1p log2 sqrt".split())


def is_function_of_numbers(script: Script, call: ast.Call) -> bool:
    """`min(best, value)`, `math.exp(value)`, `round(value, 4)`: not where what it raises is caught around it."""
    if (
        call.keywords
        or any(isinstance(a, ast.Starred) for a in call.args)
        or _is_tried(script, call)
    ):
        return False
    func = call.func
    if isinstance(func, ast.Name) and script.index.scope(call).find(func.id) is None:
        if func.id in _EXTREMES:
            return len(call.args) > 1
        return func.id in _OF_ONE and len(call.args) in (1, 2)
    dotted = script.dotted(func) or ""
    return dotted.startswith("math.") and dotted[len("math.") :] in _OF_MATH


def _is_tried(script: Script, node: ast.AST) -> bool:
    for ancestor in script.ancestors(node):
        if isinstance(ancestor, (ast.FunctionDef, ast.AsyncFunctionDef)):
            return False
        if isinstance(ancestor, ast.Try):
            return True
    return False


class Extreme(NamedTuple):
    """`if value > best: best = value`, which is `best = max(best, value)`, also for values that are not numbers (nan)."""

    statement: ast.If
    function: str
    target: ast.Name
    value: ast.Name


def extreme(script: Script, test: ast.Compare) -> Extreme | None:
    """The statement whose condition `test` is, if it keeps an extreme."""
    statement = script.parent(test)
    match statement:
        case ast.If(
            test=ast.Compare(
                left=ast.Name() as left,
                ops=[ast.Gt() | ast.Lt() as op],
                comparators=[ast.Name() as right],
            ),
            body=[ast.Assign(targets=[ast.Name() as target], value=ast.Name() as value)],
            orelse=[],
        ):
            pass
        case _:
            return None
    if {left.id, right.id} != {target.id, value.id} or target.id == value.id:
        return None
    parent = script.parent(statement)
    if isinstance(parent, ast.If) and statement in parent.orelse:
        return None  # elif
    grows = isinstance(op, ast.Gt) == (left.id == value.id)
    name = "max" if grows else "min"
    if script.index.scope(statement).find(name) is not None:
        return None
    return Extreme(statement, name, target, value)


def takes_values(script: Script, function: FunctionNode, name: str) -> bool:
    """True if all calls of `function` that are seen give its parameter `name` what stays as it is: no objects."""
    if script.is_imported_elsewhere(function.name):
        return False
    for call, scope in script.index.calls_of(function.name):
        for given in (*call.args, *(k.value for k in call.keywords)):
            found = parameter(script, call, given)
            if found == (function, name) and script.value(given, scope).kinds & _CHANGING:
                return False
    return True


def parameter(script: Script, call: ast.Call, node: ast.AST) -> tuple[FunctionNode, str] | None:
    """The function of this file that `call` calls, and the parameter that takes the argument `node`."""
    scope = script.index.scope(call)
    definition = script.value(call.func, scope).definition
    method = None
    if not isinstance(definition, ast.FunctionDef):
        method = definition = script.local_method(call.func, scope)
    if not isinstance(definition, ast.FunctionDef) or definition.decorator_list:
        return None
    if any(isinstance(a, ast.Starred) for a in call.args):
        return None
    if any(isinstance(n, (ast.Yield, ast.YieldFrom)) for n in ast.walk(definition)):
        return None
    names = [arg.arg for arg in (*definition.args.posonlyargs, *definition.args.args)]
    if method is not None:
        names = names[1:]
    if node in call.args:
        place = call.args.index(node)
        return (definition, names[place]) if place < len(names) else None
    for given in call.keywords:
        if given.value is node and given.arg in {
            *names,
            *(a.arg for a in definition.args.kwonlyargs),
        }:
            return definition, str(given.arg)
    return None
