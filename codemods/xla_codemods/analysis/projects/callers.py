"""What other modules of a project hand to the functions of one: `criterion(model(x), y)` of a class in `losses.py`.

Only modules that train are asked, or of what trains itself: elsewhere it says little of where a tensor lies in a
training step.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

from ..index import Index
from ..inference.instances import CALLED_AS_INSTANCE, names_given
from ..inference.values import Value, for_others
from ..scopes import FunctionNode, Scope, resolve
from ..syntax import argument_for
from .project import TRAINS, Project

_REPEATED = (ast.For, ast.AsyncFor, ast.While, ast.FunctionDef, ast.AsyncFunctionDef)


class Call(NamedTuple):
    """A call in another module, with the scope that it stands in and the index of that module."""

    node: ast.Call
    scope: Scope
    home: Index


class Callers:
    """The calls that other modules make of the functions of the one that `project` is seen from, each looked for once."""

    def __init__(self, project: Project) -> None:
        self.project = project
        self.modules = project.modules
        self.path = project.path
        self._calls: dict[tuple[str, str], list[Call]] = {}

    def handed(self, name: str, function: FunctionNode, owner: str) -> Iterator[Value]:
        """What they pass for the parameter `name` of `function`, a method of the class `owner` where that is not empty."""
        for call in self.of(function, owner):
            argument = argument_for(name, function, call.node, skip_self=bool(owner))
            if argument is not None:
                yield for_others(call.home.inference.value(argument, call.scope))

    def of(self, function: FunctionNode, owner: str) -> list[Call]:
        """The calls of `function`."""
        self.project.asked = True
        key = owner, function.name
        if key not in self._calls:
            self._calls[key] = list(self._found(owner, function.name))
        return self._calls[key]

    def take_part_in_steps(self, function: FunctionNode, owner: str) -> bool:
        """True if one of them stands in a loop or function that computes gradients as well."""
        return any(_is_beside_a_backward(call) for call in self.of(function, owner))

    def is_called_in_a_loop(self, function: FunctionNode, owner: str) -> bool:
        """True if another module calls `function` in each turn of a loop; a method of a class by its name."""
        self.project.asked = True
        for other in sorted(self.modules.importers.get(self.path, ())):
            index = self.modules.whole(other) if self._speaks_of(function.name, other) else None
            if index is None:
                continue
            calls = (
                ((c, s) for c, s in index.calls_of(function.name) if _is_of_an_object(c, s))
                if owner
                else (
                    (call.node, call.scope) for call in self._calls_of(function.name, other, index)
                )
            )
            if any(_is_in_a_loop(call, index) for call, _ in calls):
                return True
            if owner and any(_is_in_a_loop(c, index) for c in handed_to(function.name, index)):
                return True
        return False

    def _speaks_of(self, name: str, other: str) -> bool:
        return name in self.modules.text(other)

    def _trains(self, path: str) -> bool:
        return any(word in self.modules.text(path) for word in TRAINS)

    def _found(self, owner: str, function: str) -> Iterator[Call]:
        if owner and function != "__init__" and function not in CALLED_AS_INSTANCE:
            return
        for other in sorted(self.modules.importers.get(self.path, ())):
            named = self._speaks_of(owner or function, other)
            if not named or not (self._trains(self.path) or self._trains(other)):
                continue
            index = self.modules.whole(other)
            if index is None:
                continue
            made = list(self._calls_of(owner or function, other, index))
            if function in CALLED_AS_INSTANCE:
                names = {
                    name for call in made for name in names_given(call.node, call.home.parents)
                }
                for name in sorted(names):
                    yield from (Call(node, scope, index) for node, scope in index.calls_of(name))
            else:
                yield from made

    def _calls_of(self, name: str, other: str, index: Index) -> Iterator[Call]:
        """The calls in the module at `other` of what this module calls `name`."""
        imports = self.modules.imports(other)
        for local in sorted({name, *(found.local for found in imports if found.name == name)}):
            for node, scope in index.calls_of(local):
                dotted = resolve(node.func, scope)
                found = self.modules.defined(dotted, other) if dotted else None
                if found is not None and found[1] == self.path and _name(found[0]) == name:
                    yield Call(node, scope, index)


def handed_to(method: str, index: Index) -> Iterator[ast.Call]:
    """The calls that are handed `method` of an object, to call it: `retry(trainer.train_step, batch)`."""
    for node, scope in index.of(ast.Attribute):
        call = index.parents.get(node) if node.attr == method else None
        if isinstance(call, ast.Call) and node in call.args and resolve(node, scope) is None:
            yield call


def _is_of_an_object(call: ast.Call, scope: Scope) -> bool:
    """`trainer.train_step(batch)`, which is no function of a library."""
    return isinstance(call.func, ast.Attribute) and resolve(call.func, scope) is None


def _is_in_a_loop(node: ast.AST, index: Index) -> bool:
    """True if `node` runs in each turn of a loop; a function that is only made there does not."""
    child, current = node, index.parents.get(node)
    while current is not None:
        if isinstance(current, (ast.For, ast.AsyncFor, ast.While)) and child in current.body:
            return True
        if isinstance(current, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            return False
        child, current = current, index.parents.get(current)
    return False


def _is_beside_a_backward(call: Call) -> bool:
    around = set(_repeated_around(call.node, call.home))
    return any(
        not around.isdisjoint(_repeated_around(backward, call.home))
        for backward, _ in call.home.calls_of("backward")
    )


def _repeated_around(node: ast.AST, index: Index) -> Iterator[ast.AST]:
    """The loops and functions that `node` stands in."""
    current: ast.AST | None = node
    while current is not None:
        if isinstance(current, _REPEATED):
            yield current
        current = index.parents.get(current)


def _name(node: ast.AST) -> str:
    return getattr(node, "name", "")
