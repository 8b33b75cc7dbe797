"""Who calls a function and gets what it returns: all of them, or `Blocked` where some are not seen."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from typing import TYPE_CHECKING

from ....projects.attribute_uses import AttributeUse, uses_elsewhere, uses_of_function
from ....projects.derivation import derives
from ....scopes import FunctionNode
from ..blocked import Blocked
from .bound import is_of_another, loads, stores_and_loads

if TYPE_CHECKING:
    from ....script import Script

_PLAIN_BASES = frozenset({"abc", "builtins", "collections", "enum", "typing"})


def calls_of(script: Script, function: FunctionNode) -> list[ast.Call]:
    """Every use of `function`, all of them calls in this file; `Blocked` where there may be others."""
    calls, elsewhere = callers_of(script, function)
    if elsewhere:
        raise Blocked(f"`{function.name}` gives it to callers in `{elsewhere[0].path}`")
    return calls


def callers_of(script: Script, function: FunctionNode) -> tuple[list[ast.Call], list[AttributeUse]]:
    """The calls of `function` in this file, and what may be its uses in others; `Blocked` where some are not known."""
    owner, name = script.parent(function), function.name
    is_public = isinstance(owner, ast.ClassDef) and not name.startswith("_")
    if isinstance(owner, ast.ClassDef) and is_public and _is_of_a_library(script, owner):
        raise Blocked(f"`{name}` returns it, to callers that are not known here")
    found: Iterable[AttributeUse | None] = ()
    if script.project is not None:
        if isinstance(owner, ast.ClassDef) and is_public:
            found = uses_elsewhere(script.project, owner.name, name)
        elif isinstance(owner, ast.Module) and script.is_imported_elsewhere(name):
            found = uses_of_function(script.project, name)
    elsewhere: list[AttributeUse] = []
    for use in found:
        if use is None:
            raise Blocked(f"`{name}` returns it, to callers that are not known here")
        elsewhere.append(use)
    calls = []
    for node in _uses(script, function):
        parent = script.parent(node)
        if not isinstance(parent, ast.Call) or parent.func is not node:
            raise Blocked(f"`{name}`, which returns it, is handed on")
        calls.append(parent)
    if not calls and not elsewhere:
        raise Blocked(f"`{name}` returns it, to callers that are not known here")
    return calls, elsewhere


def _is_of_a_library(script: Script, owner: ast.ClassDef) -> bool:
    """True if the class derives from one of a library, which may call its methods; not from `nn.Module`, which calls no others."""

    def may_call(dotted: str) -> bool:
        known = dotted.startswith("torch.nn.") or dotted.partition(".")[0] in _PLAIN_BASES
        is_ours = script.project is not None and script.project.has(dotted)
        return bool(dotted) and not known and not is_ours

    return derives(script, owner, may_call)


def _uses(script: Script, function: FunctionNode) -> list[ast.Name] | list[ast.Attribute]:
    """Where this file speaks of `function`."""
    owner, name = script.parent(function), function.name
    if isinstance(owner, ast.Module):
        return [n for n, _ in script.index.names(name)]
    if isinstance(owner, (ast.FunctionDef, ast.AsyncFunctionDef)):
        scope = script.inference.scopes[owner]
        if len(scope.bindings.get(name, ())) == 1:
            return loads(script, scope, name)
    if isinstance(owner, ast.ClassDef) and name == "__call__":
        return _called_objects(script, owner)
    if isinstance(owner, ast.ClassDef) and not (name.startswith("__") and name.endswith("__")):
        return [
            node
            for node, scope in script.index.attributes(name)
            if not is_of_another(script, node, scope, owner)
        ]
    raise Blocked(f"`{name}` returns it, to callers that are not known here")


def _called_objects(script: Script, owner: ast.ClassDef) -> list[ast.Name]:
    """`average` of `average()`, of objects of the class `owner`, all of which this file keeps under names."""
    unknown = Blocked(f"objects of `{owner.name}`, which return it, are handed on")
    if script.is_imported_elsewhere(owner.name):
        raise unknown
    found: list[ast.Name] = []
    for name in (n for n, _ in script.index.names(owner.name)):
        made = script.parent(name)
        match script.parent(made) if isinstance(made, ast.Call) and made.func is name else None:
            case ast.Assign(targets=[ast.Name() as target]):
                pass
            case _:
                raise unknown
        for load in stores_and_loads(script, target, is_known=True)[2]:
            parent = script.parent(load)
            if isinstance(load, ast.Name) and isinstance(parent, ast.Call) and parent.func is load:
                found.append(load)
            elif not isinstance(parent, (ast.Attribute, ast.FormattedValue)):
                raise unknown
    return found
