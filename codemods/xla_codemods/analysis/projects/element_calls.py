"""Calls of methods on the elements of a collection, whose classes are not known: hooks and callbacks."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ..index import Index
from ..scopes import Scope


def on_elements(method: str, home: Index) -> Iterator[tuple[ast.Call, Scope]]:
    """Yield the calls that run `method` of each element, in the module of `home`.

    `hook.after_step(self)` of `for hook in self.hooks`, and `self.call("after_step")` if `call` runs
    `getattr(hook, name)(self)`. The text then takes the place of the first argument.
    """
    for node, scope in home.calls_of(method):
        match node.func:
            case ast.Attribute(value=ast.Name(id=name)) if is_an_element(name, scope):
                yield node, scope
    for runner in sorted(home.cached(_run_by_name)):
        for call, scope in home.calls_of(runner):
            if any(isinstance(a, ast.Constant) and a.value == method for a in call.args):
                yield call, scope


def is_an_element(name: str, scope: Scope) -> bool:
    """True if `name` is the variable of a loop, and nothing else."""
    found = scope.find(name)
    return found is not None and all(binding.how == "for" for binding in found[1])


def _run_by_name(home: Index) -> frozenset[str]:
    """The functions that call a method of elements whose name is their parameter: `getattr(hook, name)(self)`."""
    found = set()
    for asked, scope in home.calls_of("getattr"):
        function, around = home.function(asked), home.parents.get(asked)
        match asked.args:
            case [ast.Name(id=element), ast.Name(id=name), *_] if is_an_element(element, scope):
                is_called = isinstance(around, ast.Call) and around.func is asked
                if is_called and isinstance(function, ast.FunctionDef) and _takes(function, name):
                    found.add(function.name)
    return frozenset(found)


def _takes(function: ast.FunctionDef, name: str) -> bool:
    return any(arg.arg == name for arg in function.args.args)
