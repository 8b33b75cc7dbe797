"""The uses of a function that tests for CUDA: its calls, and code that passes or registers it."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from ...projects.attribute_uses import uses_of_function
from ...syntax import name_of

if TYPE_CHECKING:
    from ...parsed_file import ParsedFile

_PROPERTIES = frozenset({"property", "cached_property"})


def is_answer(script: ParsedFile, test: ast.expr) -> ast.FunctionDef | None:
    """Return the function whose result is `test`, or is decided by it; None if there is none.

    `return x.is_cuda`, `return FAST and x.is_cuda`, and `if x.is_cuda: return True`.
    """
    child: ast.AST = test
    for ancestor in script.ancestors(test):
        if isinstance(ancestor, ast.Return):
            break
        if isinstance(ancestor, ast.If):
            if child is not ancestor.test or not _returns_a_constant(ancestor.body[-1]):
                return None
            break
        if isinstance(ancestor, ast.stmt) or not isinstance(
            ancestor, (ast.BoolOp, ast.UnaryOp, ast.Compare, ast.Call, ast.IfExp)
        ):
            return None
        child = ancestor
    function = script.function(test)
    return function if isinstance(function, ast.FunctionDef) else None


def _returns_a_constant(statement: ast.stmt) -> bool:
    match statement:
        case ast.Return(value=ast.Constant(value=bool() | None)):
            return True
    return False


def uses_of(script: ParsedFile, function: ast.FunctionDef) -> list[tuple[ParsedFile, ast.expr]]:
    """Return the calls of the function, and other uses of its name, in all files."""
    project = script.project
    is_method = isinstance(script.parent(function), ast.ClassDef)
    named = script.index.attributes if is_method else script.index.names
    uses: list[tuple[ParsedFile, ast.expr]] = [
        (script, node) for node, _ in named(function.name) if isinstance(node.ctx, ast.Load)
    ]
    if project is not None and isinstance(script.parent(function), ast.Module):
        found = uses_of_function(project, function.name)
        uses += [(script.other_file(use.path), use.node) for use in found if use is not None]
    if any(name_of(decorator) in _PROPERTIES for decorator in function.decorator_list):
        return uses
    return [(file, _call(file, node)) for file, node in uses]


def _call(file: ParsedFile, node: ast.expr) -> ast.expr:
    """Return the call of `node`, or `node` if it is not called."""
    parent = file.parent(node)
    return parent if isinstance(parent, ast.Call) and parent.func is node else node
