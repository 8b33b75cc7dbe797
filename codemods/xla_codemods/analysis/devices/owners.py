"""Objects of the program's own classes, whose methods have names that tensors and modules have too."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, TypeAlias

from ..inference.values import TENSOR
from ..scopes import FunctionNode, Scope
from ..syntax import returned
from .callees import View, scope_of
from .passed_arguments import PassedArguments, passed_arguments

if TYPE_CHECKING:
    from ..script import Script


def has_own_method(
    script: Script, owner: ast.expr, method: str, scope: Scope | None = None
) -> bool:
    """Return True if `owner` is an object of a class of the program that defines `method`.

    Args:
        script: the file of `owner`.
        owner: the object: a call of the class, a name or attribute for it, or a parameter that callers fill with it.
        method: the name of the method, property or attribute.
        scope: where `owner` stands, if it is known.
    """
    scope = scope or script.index.scope(owner)
    if script.value(owner, scope).has(TENSOR):
        return False
    passed = passed_arguments(script)
    callees = passed.callees
    return any(
        callees.method(*found, method) is not None or any(callees.attributes(*found, method))
        for found in _classes(passed, callees.home, owner, scope, {})
    )


def own_methods(script: Script, owner: ast.expr, method: str) -> Iterator[FunctionNode]:
    """Yield the methods of that name of the program's classes that `owner` may be an object of."""
    passed = passed_arguments(script)
    scope = script.index.scope(owner)
    for found in _classes(passed, passed.callees.home, owner, scope, {}):
        target = passed.callees.method(*found, method)
        if target is not None:
            yield target.function


_Class: TypeAlias = "tuple[View, ast.ClassDef]"


def _classes(
    passed: PassedArguments,
    view: View,
    node: ast.expr,
    scope: Scope,
    known: dict[ast.AST, list[_Class]],
) -> list[_Class]:
    """Return the program's classes that `node`, in the module of `view`, may be an object of.

    `known` holds the answers so far. An expression that depends on itself adds nothing to its own answer.
    """
    if node not in known:
        known[node] = []
        known[node] = list(_found(passed, view, node, scope, known))
    return known[node]


def _found(
    passed: PassedArguments,
    view: View,
    node: ast.expr,
    scope: Scope,
    known: dict[ast.AST, list[_Class]],
) -> Iterator[_Class]:
    callees = passed.callees
    found = callees.class_of(view, node, scope)
    if found is not None:
        yield found
        return
    match node:
        case ast.Call(func=func):
            target = callees.called(view, func, scope)
            targets = [target] if target is not None else []
            if target is None and isinstance(func, ast.Attribute):
                owners = _classes(passed, view, func.value, scope, known)
                targets = [t for owner in owners if (t := callees.method(*owner, func.attr))]
            for target in targets:
                for value in returned(target.function):
                    yield from _classes(passed, target.view, value, scope_of(target), known)
        case ast.Name(id="self"):
            around = callees.class_around(view, scope)
            if around is not None:
                yield view, around
        case ast.Name(id=name):
            home, bindings = scope.find(name) or (scope, [])
            for binding in bindings:
                is_plain = binding.how == "assign" and not binding.path
                if is_plain and isinstance(binding.value, ast.expr):
                    yield from _classes(passed, view, binding.value, home, known)
                elif binding.dotted:
                    yield from _imported(passed, view, binding.dotted, known)
            target = callees.target_of(scope, view)
            for argument in passed.of(target, name) if target is not None else ():
                yield from _classes(passed, argument.view, argument.node, argument.scope, known)


def _imported(
    passed: PassedArguments, view: View, dotted: str, known: dict[ast.AST, list[_Class]]
) -> Iterator[_Class]:
    """Yield the classes of an object that another module makes as it loads: `from .setup import device_config`."""
    bound = view.modules.bound(dotted, view.path) if view.modules is not None else None
    if bound is None or bound[0].how != "assign" or bound[0].path:
        return
    there = passed.callees.view(bound[1])
    if there is not None and isinstance(bound[0].value, ast.expr):
        yield from _classes(passed, there, bound[0].value, there.indexed.module, known)
