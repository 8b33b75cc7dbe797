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
            case ast.Attribute(value=ast.Name(id=name)) if _is_an_element(name, scope):
                yield node, scope
    by_text = home.cached(_running_by_text)
    for text, scope in home.of(ast.Constant) if by_text else ():
        call = home.parents.get(text) if text.value == method else None
        if isinstance(call, ast.Call) and text in call.args and _last_name(call.func) in by_text:
            yield call, scope


def _is_an_element(name: str, scope: Scope) -> bool:
    found = scope.find(name)
    return found is not None and all(binding.how == "for" for binding in found[1])


def _running_by_text(home: Index) -> frozenset[str]:
    """The names of functions that call methods of elements by a name that they are given: `getattr(hook, name)(self)`."""
    found = set()
    for asked, scope in home.calls_of("getattr"):
        function, around = home.function(asked), home.parents.get(asked)
        match asked.args:
            case [ast.Name(id=element), ast.Name(id=text), *_] if _is_an_element(element, scope):
                is_called = isinstance(around, ast.Call) and around.func is asked
                if is_called and isinstance(function, ast.FunctionDef) and _takes(function, text):
                    found.add(function.name)
    return frozenset(found)


def _takes(function: ast.FunctionDef, name: str) -> bool:
    return any(arg.arg == name for arg in function.args.args)


def _last_name(func: ast.expr) -> str:
    return func.attr if isinstance(func, ast.Attribute) else getattr(func, "id", "")
