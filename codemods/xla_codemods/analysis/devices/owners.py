"""Objects of the program's own classes, whose methods have names that tensors and modules have too."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ...flow.closure import reach
from ..index import Index
from ..inference.values import TENSOR
from ..parsed_file import ParsedFile
from ..projects.callees import callees_of
from ..projects.passed_arguments import passed_arguments
from ..projects.sources import Place, ValueSources
from ..scopes import FunctionNode

_Found = tuple[Index, ast.ClassDef]


def has_own_method(script: ParsedFile, owner: ast.expr, method: str) -> bool:
    """Return True if `owner` is an object of a class of the program that defines `method`.

    Args:
        script: the file of `owner`.
        owner: the object: a call of the class, a name or attribute for it, or a parameter that callers fill with it.
        method: the name of the method, property or attribute.
    """
    if script.value(owner).has(TENSOR):
        return False
    callees = callees_of(script)
    return any(
        callees.method(*found, method) is not None or any(callees.attributes(*found, method))
        for found in _classes(script, owner)
    )


def own_methods(script: ParsedFile, owner: ast.expr, method: str) -> Iterator[FunctionNode]:
    """Yield the methods of that name of the program's classes that `owner` may be an object of."""
    callees = callees_of(script)
    for found in _classes(script, owner):
        target = callees.method(*found, method)
        if target is not None:
            yield target.function


def _classes(script: ParsedFile, node: ast.expr) -> Iterator[_Found]:
    """Yield the program's classes that `node` may be an object of."""
    sources = ValueSources(passed_arguments(script))

    def class_of(place: Place) -> _Found | None:
        return sources.callees.object_class(place.home, place.node) if not place.path else None

    def step(place: Place) -> Iterator[Place]:
        yield from () if class_of(place) else sources.of(place)

    yield from filter(None, map(class_of, reach([Place(node, script.index)], step)))
