"""Objects of the program's own classes, whose methods have names that tensors and modules have too."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ...flow.closure import reach
from ..inference.values import TENSOR
from ..projects.callees import View
from ..projects.passed_arguments import PassedArguments, passed_arguments
from ..projects.sources import Place, ValueSources
from ..scopes import FunctionNode, Scope

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
        for found in _classes(passed, owner, scope)
    )


def own_methods(script: Script, owner: ast.expr, method: str) -> Iterator[FunctionNode]:
    """Yield the methods of that name of the program's classes that `owner` may be an object of."""
    passed = passed_arguments(script)
    scope = script.index.scope(owner)
    for found in _classes(passed, owner, scope):
        target = passed.callees.method(*found, method)
        if target is not None:
            yield target.function


def _classes(
    passed: PassedArguments, node: ast.expr, scope: Scope
) -> Iterator[tuple[View, ast.ClassDef]]:
    """Yield the program's classes that `node` may be an object of."""
    sources, callees = ValueSources(passed), passed.callees

    def class_of(place: Place) -> tuple[View, ast.ClassDef] | None:
        return callees.object_class(place.view, place.node, place.scope) if not place.path else None

    def step(place: Place) -> Iterator[Place]:
        return iter(()) if class_of(place) else sources.of(place)

    found = map(class_of, reach([Place(node, scope, callees.home)], step))
    yield from (each for each in found if each is not None)
