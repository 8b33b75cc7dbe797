"""Device defaults of parameters, which a function can choose when it is called instead of when its module is imported."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

from ...edits import Edit, InsertBefore, Replace
from ...flow.calls import passed
from ..nodes import FUNCTIONS, walk
from ..scopes import FunctionNode
from ..script import Script
from ..syntax import defaults, is_literal

# Decorators that neither read a signature nor check what a parameter is.
_TRANSPARENT = frozenset(
    {
        "classmethod",
        "staticmethod",
        "contextlib.contextmanager",
        "functools.cache",
        "functools.lru_cache",
        "functools.wraps",
        "torch.enable_grad",
        "torch.inference_mode",
        "torch.no_grad",
    }
)
# What makes options, or checks, of the parameters of a function.
_READERS = ("fire", "typer", "tyro", "defopt", "jsonargparse", "signature", "beartype", "typeguard")


class _Default(NamedTuple):
    """A parameter with its default, and the function that has it."""

    function: FunctionNode
    parameter: ast.arg
    default: ast.expr


def late_default(script: Script, node: ast.expr, text: str) -> tuple[Edit, ...]:
    """Return the edits that make the default `node` None, for which the function takes `text`.

    Nothing is returned if `node` is no default, or if None is not sure to mean "not given".
    """
    found = _default(script, node)
    if found is None or not _may_be_none(script, found):
        return ()
    name = found.parameter.arg
    lines = f"if {name} is None:\n    {name} = {text}"
    return (
        Replace(node, "None"),
        *_annotated(script, found.parameter),
        InsertBefore(first_statement(found.function), lines),
    )


def _default(script: Script, node: ast.expr) -> _Default | None:
    arguments = script.parent(node)
    function = script.parent(arguments) if isinstance(arguments, ast.arguments) else None
    if isinstance(function, FUNCTIONS):
        for parameter, default in defaults(function.args):
            if default is node:
                return _Default(function, parameter, default)
    return None


def _may_be_none(script: Script, found: _Default) -> bool:
    function, name = found.function, found.parameter.arg
    return (
        not script.source.mentions(*_READERS)
        and all(_is_transparent(script, decorator) for decorator in function.decorator_list)
        and first_statement(function).lineno > function.lineno
        and not any(_asks_for_none(node, name) for node in walk(function))
        and not _is_passed_none(script, found)
    )


def _is_transparent(script: Script, decorator: ast.expr) -> bool:
    func = decorator.func if isinstance(decorator, ast.Call) else decorator
    name = script.dotted(func) or (func.id if isinstance(func, ast.Name) else "")
    return name in _TRANSPARENT


def _asks_for_none(node: ast.AST, name: str) -> bool:
    """Return True if `node` compares `name` with None, or tests that it is empty."""
    match node:
        case ast.Compare(left=left, comparators=[right]):
            pair = (left, right)
            return any(_is_name(part, name) for part in pair) and any(
                is_literal(part, None) for part in pair
            )
        case ast.BoolOp(values=values):
            return any(_is_name(value, name) for value in values)
        case ast.UnaryOp(op=ast.Not(), operand=tested):
            return _is_name(tested, name)
        case ast.If(test=tested) | ast.IfExp(test=tested) | ast.While(test=tested):
            return _is_name(tested, name)
        case ast.Global(names=names) | ast.Nonlocal(names=names):
            return name in names
    return False


def _is_name(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name


def _is_passed_none(script: Script, found: _Default) -> bool:
    """Return True if a call in this file passes None, or a parameter whose own default is None."""
    given = passed(script, found.function, found.parameter.arg)
    return any(_is_none(script, part) for value in given if value for part in walk(value))


def _is_none(script: Script, node: ast.AST) -> bool:
    if isinstance(node, ast.Constant):
        return node.value is None
    if not isinstance(node, ast.Name):
        return False
    around = script.function(node)
    return around is not None and any(
        parameter.arg == node.id and is_literal(default, None)
        for parameter, default in defaults(around.args)
    )


def _annotated(script: Script, parameter: ast.arg) -> Iterator[Edit]:
    """Yield the edit that makes the annotation of `parameter` accept None."""
    annotation = parameter.annotation
    if annotation is None:
        return
    text = ast.unparse(annotation)
    if any(word in text for word in ("Any", "None", "Optional", "object")):
        return
    if isinstance(annotation, ast.Constant):
        yield Replace(annotation, f'"{annotation.value!s} | None"')
    else:
        joined = isinstance(annotation, ast.BinOp)
        text = f"{script.segment(annotation)} | None" if joined else "{0} | None"
        yield Replace(annotation, text, () if joined else (annotation,))


def first_statement(function: FunctionNode) -> ast.stmt:
    """Return the first statement after the docstring; of a function with nothing else, the docstring."""
    body = function.body
    if ast.get_docstring(function, clean=False) is not None and len(body) > 1:
        return body[1]
    return body[0]
