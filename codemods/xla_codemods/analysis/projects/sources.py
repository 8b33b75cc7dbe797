"""Where values come from, through the modules of a program: one step at a time, for `flow.closure.reach`."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

from ...flow.edges import sources
from ..devices.specs import leaves
from ..index import Index
from ..scopes import ITERATED
from ..syntax import returned
from .callees import Target, filled
from .passed_arguments import PassedArguments, assigned_to

# `x = x[0]` would add an index for each iteration, and functions that pass parts to each other multiply the paths.
_LONGEST_PATH = 3


class Place(NamedTuple):
    """An expression in its module.

    `path` leads to the part of its value that is wanted: indices, keys, and methods that are called (`"get()"`).
    """

    node: ast.expr
    home: Index
    path: tuple[int | str, ...] = ()


class ValueSources:
    """The expressions that values come from."""

    def __init__(self, passed: PassedArguments) -> None:
        self.passed = passed
        self.callees = passed.callees

    def of(self, place: Place) -> Iterator[Place]:
        """Yield the places that the value of `place` comes from."""
        node, index, path = place
        if len(path) > _LONGEST_PATH:
            return
        if path and str(path[0]).endswith("()"):  # a method's result
            found = self.callees.object_class(index, node)
            method = found and self.callees.method(*found, str(path[0])[:-2])
            if method is not None:
                yield from _returned(method, path[1:])
                return
        match node:
            case ast.IfExp() | ast.BoolOp() | ast.NamedExpr():
                yield from (place._replace(node=part) for part in sources(index, node))
            case ast.Tuple(elts=elements) | ast.List(elts=elements) if path:
                first, *rest = path
                if first == ITERATED:
                    yield from (Place(e, index, tuple(rest)) for e in elements)
                elif isinstance(first, int) and -len(elements) <= first < len(elements):
                    yield Place(elements[first], index, tuple(rest))
            case ast.Dict(keys=keys, values=values) if path:
                for entry, value in zip(keys, values):
                    if isinstance(entry, ast.Constant) and entry.value == path[0]:
                        yield Place(value, index, path[1:])
            case ast.Starred(value=several):
                yield Place(several, index, (ITERATED, *path))
            case ast.Call(func=ast.Name(id="list" | "tuple"), args=[several]) if path:
                yield place._replace(node=several)
            case ast.ListComp(elt=element) | ast.GeneratorExp(elt=element) if path:
                yield Place(element, index, path[1:])
            case ast.Subscript(value=owner, slice=ast.Constant(value=int() | str() as step)):
                yield Place(owner, index, (step, *path))
                yield from (Place(value, index, path) for value in assigned_to(node, index))
            case ast.Name():
                yield from self._of_name(node, place)
            case ast.Attribute():
                yield from self._of_attribute(node, place)
            case ast.Call(func=func):
                target = self.callees.called(index, func)
                if target is not None and target.function.name != "__init__":
                    yield from self._of_call(node, target, place)
                elif target is None and isinstance(func, ast.Attribute):
                    yield Place(func.value, index, (f"{func.attr}()", *path))

    def _of_call(self, call: ast.Call, target: Target, place: Place) -> Iterator[Place]:
        """Yield what `target` returns; of a parameter what `call` passes, not what other calls do."""
        handed = self.callees.handed(place.home, call)
        given = dict(filled(handed, target)) if handed is not None else {}
        for result in _returned(target, place.path):
            parts = [(part, _parameter(part, result.home)) for part in leaves(result.node)]
            if not any(name in given for _, name in parts):
                yield result
                continue
            for part, name in parts:
                known = given.get(name)
                yield result._replace(node=part) if known is None else place._replace(node=known)

    def _of_name(self, node: ast.Name, place: Place) -> Iterator[Place]:
        index, path = place.home, place.path
        for binding in index.reaching(node):
            if binding.how in {"assign", "for"} and binding.value is not None:
                yield Place(binding.value, index, (*binding.path, *path))
            elif binding.how == "parameter" and isinstance(binding.node, ast.arg):
                given = self.passed.of_parameter(index, node)
                yield from (Place(*argument[:2], path) for argument in given)
            elif binding.how == "import":
                yield from self.imported(binding.dotted, index, path)

    def imported(
        self, dotted: str, index: Index, path: tuple[int | str, ...] = ()
    ) -> Iterator[Place]:
        """Yield what another module binds `dotted` to: `from data import adj`."""
        modules = self.callees.modules_for(dotted)
        bound = modules.bound(dotted, index.path) if modules is not None else None
        there = self.callees.module(bound[1]) if bound is not None else None
        if bound is not None and bound[0].how == "assign" and there not in (None, index):
            value = bound[0].value
            if value is not None:
                yield Place(value, there, (*bound[0].path, *path))

    def _of_attribute(self, node: ast.Attribute, place: Place) -> Iterator[Place]:
        _, index, path = place
        dotted = index.dotted(node)
        if dotted is not None:
            yield from self.imported(dotted, index, path)
            return
        found = self.callees.object_class(index, node.value)
        if found is None:
            yield from (Place(value, index, path) for value in assigned_to(node, index))
            return
        for of, binding in self.callees.attributes(*found, node.attr):
            if binding.value is not None:
                yield Place(binding.value, of, (*binding.path, *path))
        computed = self.callees.method(*found, node.attr)
        if computed is not None:
            yield from _returned(computed, path)


def _parameter(node: ast.expr, index: Index) -> str:
    """Return the name of `node` if it is only a parameter of its function, otherwise ""."""
    own = index.scope(node).bindings
    bindings = own.get(node.id, ()) if isinstance(node, ast.Name) else ()
    is_parameter = bool(bindings) and all(b.how == "parameter" for b in bindings)
    return node.id if isinstance(node, ast.Name) and is_parameter else ""


def _returned(target: Target, path: tuple[int | str, ...]) -> Iterator[Place]:
    yield from (Place(value, target.home, path) for value in returned(target.function))
