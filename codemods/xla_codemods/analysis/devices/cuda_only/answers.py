"""The uses of the result of a function that tests for CUDA: its calls, and code that passes or registers it."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import TYPE_CHECKING

from ...projects.attribute_uses import uses_of_function

if TYPE_CHECKING:
    from ...parsed_file import ParsedFile
    from ...projects.attribute_uses import AttributeUse

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


def all_uses(
    script: ParsedFile,
    function: ast.FunctionDef,
    holds: Callable[[ast.expr], bool],
    holds_elsewhere: Callable[[AttributeUse], bool],
) -> bool:
    """Return True if the function is used and the condition holds for every use.

    Args:
        script: the file.
        function: one of its functions, methods or properties.
        holds: called with each call of the function, and with each name of it that is passed or stored.
        holds_elsewhere: called with each name of it in other modules of the program.
    """
    uses = _uses(script, function)
    if not all(map(holds, uses)):
        return False
    elsewhere: list[AttributeUse] = []
    if script.project is not None and isinstance(script.parent(function), ast.Module):
        found = uses_of_function(script.project, function.name)
        elsewhere = [use for use in found if use is not None]
    return bool(uses or elsewhere) and all(map(holds_elsewhere, elsewhere))


def _uses(script: ParsedFile, function: ast.FunctionDef) -> list[ast.expr]:
    is_method = isinstance(script.parent(function), ast.ClassDef)
    names: list[ast.expr] = [
        node
        for node, _ in script.index.of(ast.Attribute if is_method else ast.Name)
        if getattr(node, "attr" if is_method else "id", "") == function.name
        and isinstance(node.ctx, ast.Load)  # type: ignore[attr-defined]
    ]
    if any(
        getattr(d, "id", getattr(d, "attr", "")) in _PROPERTIES for d in function.decorator_list
    ):
        return names
    found = []
    for name in names:
        parent = script.parent(name)
        found.append(parent if isinstance(parent, ast.Call) and parent.func is name else name)
    return found
