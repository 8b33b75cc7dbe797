"""Strings that become "xla" in the rewritten script: `kind = "cuda" if use_cuda else "cpu"`."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import TYPE_CHECKING

from ....flow.closure import reach
from ....flow.edges import sources
from ...inference.library_types import RUNTIME
from ...scopes import Scope, resolve
from ...syntax import returned
from ..literal_context import NAME
from ..literals import DeviceLiterals

if TYPE_CHECKING:
    from ...parsed_file import ParsedFile


def is_renamed(script: ParsedFile, node: ast.expr) -> bool:
    """Return True if `node` may be such a string: comparisons of it with "cuda" must change."""
    return _comes_from(script, node, lambda value: _is_such_a_string(script, value))


def is_xla_or_renamed(script: ParsedFile, node: ast.expr) -> bool:
    """The same, before the script is rewritten and after: `kind = xla.device_type()`."""
    return is_renamed(script, node) or _comes_from(
        script,
        node,
        lambda value: (
            isinstance(value, ast.Call) and _is_the_runtimes(value.func, script.index.scope(value))
        ),
    )


def _comes_from(script: ParsedFile, node: ast.expr, ends: Callable[[ast.expr], bool]) -> bool:
    return any(map(ends, reach([node], lambda value: sources(script, value))))


def _literals(script: ParsedFile) -> set[ast.AST]:
    placed = script.cached(DeviceLiterals).all
    return {each.spec.node for each in placed if each.place == NAME and not each.of_devices}


def _is_such_a_string(script: ParsedFile, node: ast.expr) -> bool:
    """Return True if `node` is such a string, or a name or result of a module that has one."""
    name, project = node.func if isinstance(node, ast.Call) else node, script.project
    if node in script.cached(_literals) or project is None:
        return node in script.cached(_literals)
    is_name = isinstance(name, (ast.Name, ast.Attribute))
    dotted = resolve(name, script.index.scope(node)) if is_name else None
    found = project.bound(dotted) if dotted else None
    inside = project.modules.scope(found[1]) if found is not None else None
    if found is None or inside is None:
        return False
    if isinstance(found[0].node, ast.FunctionDef):
        return any(_chooses(value, inside) for value in returned(found[0].node))
    return found[0].how == "assign" and not found[0].path and _chooses(found[0].value, inside)


def _chooses(node: ast.expr | None, scope: Scope) -> bool:
    match node:
        case ast.IfExp(body=ast.Constant(value=first), orelse=ast.Constant(value=second)):
            return {"cuda", "cpu"} == {first, second}
        case ast.IfExp(body=first, orelse=second):
            return _chooses(first, scope) or _chooses(second, scope)
        case ast.Call(func=func):
            return _is_the_runtimes(func, scope)
    return False


def _is_the_runtimes(func: ast.expr, scope: Scope) -> bool:
    return resolve(func, scope) == f"{RUNTIME}.device_type"
