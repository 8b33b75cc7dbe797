"""Calls of one module that run in each training step, and methods that are called on the elements of a collection.

Functions are known by the name by which their own module calls them: `step(x)` or `self.step(x)`.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator
from typing import NamedTuple

from ...flow.closure import reach
from ..index import Index
from ..inference.values import MODULE
from ..loops import scaled_by_name
from ..nodes import walk
from ..once import once
from ..scopes import FunctionNode, Scope
from ..syntax import argument_for, position, walk_body

_DEFINED = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_LOOPS = (ast.For, ast.AsyncFor, ast.While)
_REPEATED = (*_LOOPS, *_FUNCTIONS)


def is_in_a_step(node: ast.AST, home: Index) -> bool:
    """True if `node` runs in each turn of a loop that computes gradients, whatever the conditions.

    Or in a function that is called there. A loop over epochs counts only if `node` runs in an inner loop, such as
    that of an evaluation: what runs beside it runs once per epoch.
    """
    is_in_a_loop = any(True for _ in _loops_around(node, home))
    backward = home.cached(_backward_calls if is_in_a_loop else _backward_calls_of_steps)
    places = reach([node], lambda inner: _calls_around(inner, home))
    return any(
        not backward.isdisjoint(walk(loop))
        for place in places
        for loop in _loops_around(place, home)
    )


def is_beside_a_backward(node: ast.AST, home: Index) -> bool:
    """True if `node` stands in a loop or function that computes gradients as well."""
    around = set(_repeated_around(node, home))
    return any(
        not around.isdisjoint(_repeated_around(call, home)) for call, _ in home.calls_of("backward")
    )


@once
def computing(home: Index) -> Collection[FunctionNode]:
    """The `forward` methods of the module classes of a file, and what they call: methods of the same object, functions
    of the file. In the order of calls.
    """
    models = (
        home.inference.inner(definition, scope)
        for definition, scope in home.of(ast.ClassDef)
        if MODULE in home.inference.base_kind(definition, scope)
    )

    def called(function: FunctionNode) -> Iterator[FunctionNode]:
        parent = home.parents.get(function)
        owner = home.inference.scopes.get(parent) if isinstance(parent, ast.ClassDef) else None
        for node in walk_body(function.body):
            match node:
                case ast.Call(func=ast.Name(id=name)):
                    yield from _defined(home.module, name)
                case ast.Call(func=ast.Attribute(value=ast.Name(id="self"), attr=name)) if owner:
                    yield from _defined(owner, name)

    forwards = (function for model in models for function in _defined(model, "forward"))
    return reach(forwards, called).keys()


def _defined(scope: Scope, name: str) -> Iterator[FunctionNode]:
    """Yield the functions that `scope` itself calls `name`."""
    for binding in scope.bindings.get(name, ()):
        if isinstance(binding.node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield binding.node


def _backward_calls(home: Index) -> frozenset[ast.AST]:
    """The calls that compute gradients, `loss.backward()` or `scaler(loss, optimizer)`, and calls of functions that make one."""
    return frozenset(reach(_own_backward_calls(home), lambda call: _calls_around_all(call, home)))


def _backward_calls_of_steps(home: Index) -> frozenset[ast.AST]:
    """The same without calls of functions that take all steps of an epoch."""
    steps = {around for call, _ in home.calls_of("step") for _, around in above(call, home)}

    def around(call: ast.AST) -> list[ast.AST]:
        loops = (around for _, around in above(call, home) if isinstance(around, _LOOPS))
        return [] if any(loop in steps for loop in loops) else _calls_around_all(call, home)

    return frozenset(reach(_own_backward_calls(home), around))


def _own_backward_calls(home: Index) -> list[ast.AST]:
    scaled = (call for call, _ in home.of(ast.Call) if scaled_by_name(call))
    return [*(call for call, _ in home.calls_of("backward")), *scaled]


def _calls_around(node: ast.AST, home: Index) -> list[ast.AST]:
    """The calls of the function around `node`, unless a condition decides whether `node` runs."""
    chain = list(above(node, home))
    is_conditional = any(isinstance(a, (ast.If, ast.IfExp)) and a.test is not c for c, a in chain)
    return [] if is_conditional else _calls_around_all(node, home)


def _calls_around_all(node: ast.AST, home: Index) -> list[ast.AST]:
    function = home.function(node)
    if not isinstance(function, _FUNCTIONS):
        return []
    return [call for call, _ in home.calls_of(function.name) if _is_of_the_module(call.func)]


def _is_of_the_module(func: ast.expr) -> bool:
    match func:
        case ast.Name() | ast.Attribute(value=ast.Name(id="self")):
            return True
    return False


def _loops_around(node: ast.AST, home: Index) -> Iterator[ast.AST]:
    """The loops of the function around `node` in each of whose turns it runs."""
    for child, around in above(node, home):
        if isinstance(around, (ast.If, ast.IfExp)) and child is not around.test:
            return
        if isinstance(around, _LOOPS) and child in around.body:
            yield around


def above(node: ast.AST, home: Index) -> Iterator[tuple[ast.AST, ast.AST]]:
    """Yield the nodes around `node`, each with its parent, up to the function or class around."""
    child = node
    while (around := home.parents.get(child)) is not None and not isinstance(around, _DEFINED):
        yield child, around
        child = around


def _repeated_around(node: ast.AST, home: Index) -> Iterator[ast.AST]:
    """The loops and functions that `node` stands in."""
    current: ast.AST | None = node
    while current is not None:
        if isinstance(current, _REPEATED):
            yield current
        current = home.parents.get(current)


def tensor_behind(argument: ast.expr, scope: Scope, index: Index) -> ast.expr | None:
    """`loss` of `loss.item()`, and of a name for that, while `loss` is what it was."""
    if not isinstance(argument, ast.Name):
        return _read(argument)
    found = scope.find(argument.id)
    if found is None or found[0] is not scope or len(found[1]) != 1:
        return None
    (bound,) = found[1]
    tensor = _read(bound.whole)
    if not isinstance(tensor, ast.Name) or not _is_computed(tensor, scope):
        return None
    return None if _changes(tensor, argument, scope, index) else tensor


def _read(node: ast.expr | None) -> ast.expr | None:
    match node:
        case ast.Call(func=ast.Attribute(attr="item", value=owner), args=[], keywords=[]):
            return owner
    return None


def _is_computed(tensor: ast.Name, scope: Scope) -> bool:
    """True for a result, which is no parameter that the optimizer changes."""
    found = scope.find(tensor.id)
    return found is not None and all(
        b.how in {"assign", "augment"} and isinstance(b.value, (ast.Call, ast.BinOp))
        for b in found[1]
    )


def _changes(tensor: ast.Name, until: ast.expr, scope: Scope, index: Index) -> bool:
    """True if `tensor` may be another, or hold another value, at `until`, which stands below."""
    if position(until) < position(tensor):
        return True
    for node, inner in index.of(ast.Name):
        between = position(tensor) < position(node) < position(until)
        if node.id != tensor.id or inner is not scope or not between:
            continue
        if not isinstance(node.ctx, ast.Load) or _is_in_place(node, index):
            return True
    return False


def _is_in_place(node: ast.AST, index: Index) -> bool:
    """True for `loss.mul_(2)` and `loss.data.div_(n)`."""
    while isinstance(parent := index.parents.get(node), ast.Attribute):
        if parent.attr.endswith("_"):
            return True
        node = parent
    return False


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
    for lookup, scope in home.calls_of("getattr"):
        function, around = home.function(lookup), home.parents.get(lookup)
        match lookup.args:
            case [ast.Name(id=element), ast.Name(id=name), *_] if is_an_element(element, scope):
                if not isinstance(around, ast.Call) or around.func is not lookup:
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
