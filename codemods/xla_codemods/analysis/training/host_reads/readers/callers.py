"""The calls of a function, in its own file and in other modules."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from typing import TYPE_CHECKING

from ....inference.values import INSTANCE
from ....projects.attribute_uses import AttributeUse, uses_elsewhere, uses_of_function
from ....projects.derivation import derives
from ....scopes import FunctionNode
from ..blocked import Blocked
from ..formatted import made_by
from .cells import _is_of_another
from .modules import class_elsewhere, node_at, script_of

if TYPE_CHECKING:
    from ....script import Script

_PLAIN_BASES = frozenset({"abc", "builtins", "collections", "enum", "typing"})


def callers_of(
    start: Script, script: Script, function: FunctionNode
) -> list[tuple[Script, ast.Call]]:
    """Return the calls of `function` of `script`, each with its module; `start` is the file that is analysed.

    Raises `Blocked` if it may have other callers.
    """
    name = function.name
    unknown = Blocked(f"`{name}` returns it, to callers that are not known here")
    owner = script.parent(function)
    if isinstance(owner, ast.ClassDef) and name == "__call__":
        uses = [(start, node) for node in _called_objects(start, script, owner)]
    else:
        uses = [(script, node) for node in _uses(script, function, unknown)]
    if isinstance(owner, ast.ClassDef) and script is not start:
        uses += [
            (start, node)
            for node, scope in start.index.attributes(name)
            if not _is_of_another(start, node, scope, owner)
        ]
    for use in _uses_elsewhere(script, function) if script is start else ():
        if use is None:
            raise unknown
        other = script_of(start, use.path)
        uses.append((other, node_at(other, use.node)))
    calls = []
    for other, node in uses:
        parent = other.parent(node)
        if not isinstance(parent, ast.Call) or parent.func is not node:
            if other is script:
                raise Blocked(f"`{name}`, which returns it, is passed on")
            raise unknown
        calls.append((other, parent))
    if not calls:
        raise unknown
    return calls


def _uses_elsewhere(script: Script, function: FunctionNode) -> Iterable[AttributeUse | None]:
    owner, name = script.parent(function), function.name
    if isinstance(owner, ast.ClassDef) and not name.startswith("_"):
        if _is_of_a_library(script, owner):
            return (None,)
        if script.project is not None:
            return uses_elsewhere(script.project, owner.name, name)
    if isinstance(owner, ast.Module) and script.project is not None:
        if script.is_imported_elsewhere(name):
            return uses_of_function(script.project, name)
    return ()


def _is_of_a_library(script: Script, owner: ast.ClassDef) -> bool:
    """Return True if a library's base class may call the methods of `owner`; `nn.Module` does not."""

    def may_call(dotted: str) -> bool:
        known = dotted.startswith("torch.nn.") or dotted.partition(".")[0] in _PLAIN_BASES
        is_ours = script.project is not None and script.project.has(dotted)
        return bool(dotted) and not known and not is_ours

    return derives(script, owner, may_call)


def _uses(script: Script, function: FunctionNode, unknown: Blocked) -> list[ast.expr]:
    """Return the uses of `function` in its own file."""
    owner, name = script.parent(function), function.name
    match owner:
        case ast.Module():
            return [*script.index.reads_of(script.module, name)]
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            scope = script.inference.scopes[owner]
            if len(scope.bindings.get(name, ())) == 1:
                return [*script.index.reads_of(scope, name)]
        case ast.ClassDef() if not name.startswith("__"):
            return [
                node
                for node, scope in script.index.attributes(name)
                if not _is_of_another(script, node, scope, owner)
            ]
    raise unknown


def _called_objects(start: Script, script: Script, owner: ast.ClassDef) -> list[ast.expr]:
    """Return `average` of each `average()` in `start`, for objects of the class `owner` of `script`."""
    found: list[ast.expr] = []
    for call, scope in start.index.of(ast.Call):
        if start is script:
            value = start.value(call.func, scope)
            is_one = value.definition is owner and value.has(INSTANCE)
        else:
            made = class_elsewhere(start, made_by(start, call.func))
            is_one = made is not None and made[1] is owner
        if is_one:
            found.append(call.func)
    return found
