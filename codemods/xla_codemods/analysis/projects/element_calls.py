"""Calls of methods on the elements of a collection, whose classes are not known: hooks and callbacks."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

from ..index import Index
from ..scopes import Scope
from ..syntax import argument_for


class ElementCall(NamedTuple):
    """A call that runs a method of each element; `passes` has the arguments that the method receives."""

    node: ast.Call
    scope: Scope
    passes: ast.Call


def on_elements(method: str, home: Index) -> Iterator[ElementCall]:
    """Yield the calls that run `method` of each element, in the module of `home`.

    `hook.after_step(self)` of `for hook in self.hooks`, and `self.call("after_step")` if `call` runs
    `getattr(hook, name)(self)`.
    """
    for node, scope in home.calls_of(method):
        match node.func:
            case ast.Attribute(value=ast.Name(id=name)) if is_an_element(name, scope):
                yield ElementCall(node, scope, node)
    for runner, run in sorted(home.cached(_run_by_name).items()):
        for call, scope in home.calls_of(runner):
            if any(isinstance(a, ast.Constant) and a.value == method for a in call.args):
                yield ElementCall(call, scope, _passed(call, *run))


def is_an_element(name: str, scope: Scope) -> bool:
    """True if `name` is the variable of a loop, and nothing else."""
    found = scope.find(name)
    return found is not None and all(binding.how == "for" for binding in found[1])


def _run_by_name(home: Index) -> dict[str, tuple[ast.FunctionDef, ast.Call]]:
    """Return the functions that call a method of elements whose name is their parameter, and this call.

    `getattr(hook, name)(self, *args)`.
    """
    found = {}
    for asked, scope in home.calls_of("getattr"):
        function, around = home.function(asked), home.parents.get(asked)
        match asked.args:
            case [ast.Name(id=element), ast.Name(id=name), *_] if is_an_element(element, scope):
                if not isinstance(around, ast.Call) or around.func is not asked:
                    continue
                if isinstance(function, ast.FunctionDef) and _takes(function, name):
                    found[function.name] = function, around
    return found


def _passed(call: ast.Call, runner: ast.FunctionDef, inner: ast.Call) -> ast.Call:
    """Return `inner`, with the arguments of `call` in place of the parameters of `runner`."""
    skips_self = isinstance(call.func, ast.Attribute)
    plain = [arg.arg for arg in runner.args.args][skips_self:]
    spread = runner.args.vararg.arg if runner.args.vararg is not None else ""

    def filled(argument: ast.expr) -> list[ast.expr]:
        match argument:
            case ast.Starred(value=ast.Name(id=name)) if name == spread:
                return call.args[len(plain) :]
            case ast.Name(id=name) if name in plain:
                given = argument_for(name, runner, call, skip_self=skips_self)
                return [given or argument]
        return [argument]

    args = [given for argument in inner.args for given in filled(argument)]
    keywords = [ast.keyword(k.arg, filled(k.value)[0]) for k in inner.keywords if k.arg]
    if runner.args.kwarg is not None:
        keywords += [k for k in call.keywords if k.arg not in plain]
    return ast.Call(inner.func, args, keywords)


def _takes(function: ast.FunctionDef, name: str) -> bool:
    return any(arg.arg == name for arg in function.args.args)
