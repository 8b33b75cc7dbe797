"""The calls of a file, and the functions and methods that they run."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol, TypeVar

from ..analysis.bindings import Binding
from ..analysis.nodes import FUNCTIONS
from ..analysis.scopes import FunctionNode, Scope
from ..analysis.syntax import (
    CALLED_AS_INSTANCE,
    argument_for,
    is_static,
    name_of,
    names_given,
    parameters,
)

# Decorators that make a function dispatch to the implementations registered for it.
_DISPATCHING = frozenset({"singledispatch", "singledispatchmethod"})

N = TypeVar("N", bound=ast.AST)
T = TypeVar("T")


class Nodes(Protocol):
    """The nodes of a file by type and name."""

    def cached(self, make: Callable[[Any], T]) -> T: ...
    def of(self, kind: type[N]) -> list[tuple[N, Scope]]: ...
    def scope(self, node: ast.AST) -> Scope: ...
    def calls_of(self, name: str) -> list[tuple[ast.Call, Scope]]: ...
    def names(self, name: str) -> list[tuple[ast.Name, Scope]]: ...
    def names_of(self, owner: Scope, name: str) -> list[tuple[ast.Name, Scope]]: ...
    def same(self, name: ast.Name) -> list[ast.Name]: ...
    def attributes(self, name: str) -> list[tuple[ast.Attribute, Scope]]: ...
    def stores(self, name: str) -> list[ast.Attribute]: ...
    def subscripts(self, key: str) -> list[tuple[ast.Subscript, Scope]]: ...
    def values_of(self, text: str) -> list[ast.expr]: ...


class _Values(Protocol):
    """The values of a file's expressions, and its classes."""

    def remembered(self, find: Callable[..., T], *of: object) -> T: ...

    def lineage(self, definition: ast.ClassDef) -> list[ast.ClassDef]: ...
    def method(self, definition: ast.ClassDef, name: str) -> tuple[FunctionNode, Scope] | None: ...


class File(Protocol):
    """One parsed file. Scripts have these attributes."""

    @property
    def index(self) -> Nodes:
        """The nodes of the file."""

    @property
    def inference(self) -> _Values:
        """The values of the file's expressions."""

    def parent(self, node: ast.AST) -> ast.AST | None:
        """Return the node that `node` is a part of."""

    def ancestors(self, node: ast.AST) -> Iterator[ast.AST]:
        """Yield all nodes that `node` is a part of, the innermost first."""

    def reaching(self, name: ast.Name) -> list[Binding]:
        """Return the bindings that a read of `name` may see."""

    def function(self, node: ast.AST) -> FunctionNode | None:
        """Return the innermost function that `node` stands in."""

    def class_around(self, node: ast.AST) -> ast.ClassDef | None:
        """Return the innermost class that `node` stands in."""

    def class_of(self, node: ast.expr) -> ast.ClassDef | None:
        """Return the class of the file that `node` is an instance of."""

    def function_of(self, func: ast.expr) -> FunctionNode | None:
        """Return the function or method of the file that `func` names."""


def called(file: File, call: ast.Call) -> FunctionNode | None:
    """Return the function of the file that `call` runs: `f()`, `x.f()`, or `__init__` of `C()`."""
    return named(file, call.func)


def named(file: File, func: ast.expr) -> FunctionNode | None:
    """Return the function of the file that a call of `func` runs."""
    owner: ast.AST | None = None
    method = "__init__"
    match func:
        case ast.Name(id=name):
            found = file.index.scope(func).find(name)
            owner = found[1][0].node if found is not None and len(found[1]) == 1 else None
        case ast.Attribute(attr=method, value=ast.Call(func=ast.Name(id="super"))):
            around = file.class_around(func)
            owner = next(iter(file.inference.lineage(around)[1:]), None) if around else None
            if owner is None:  # a base in another module
                return None
        case ast.Attribute(attr=method):
            owner = class_of_self(file, func)
    if isinstance(owner, ast.ClassDef):
        defined = file.inference.method(owner, method)
        owner = defined[0] if defined is not None else None
    return owner if isinstance(owner, FUNCTIONS) else file.function_of(func)


def class_named(file: File, func: ast.expr) -> ast.ClassDef | None:
    """Return the class of the file that is called `func`."""
    found = file.index.scope(func).find(func.id) if isinstance(func, ast.Name) else None
    definition = found[1][0].node if found is not None and len(found[1]) == 1 else None
    return definition if isinstance(definition, ast.ClassDef) else None


def calls_by_name(file: File, function: FunctionNode) -> Sequence[ast.Call]:
    """Return the calls of the file by the name of `function`; for `__init__`, of its class; for `__call__`, of its instances."""
    return file.inference.remembered(_calls_by_name, file, function)


def _calls_by_name(file: File, function: FunctionNode) -> Sequence[ast.Call]:
    owner = file.parent(function)
    names, at_once = {function.name}, list[ast.Call]()
    if isinstance(owner, ast.ClassDef) and function.name == "__init__":
        names = {heir.name for heir in heirs(file, owner)}
        above = (call for call, _ in file.index.calls_of("__init__"))
        at_once = [call for call in above if named(file, call.func) is function]
    elif isinstance(owner, ast.ClassDef) and function.name in CALLED_AS_INSTANCE:
        made = [call for call, _ in file.index.calls_of(owner.name)]
        names |= {name for call in made for name in names_given(call, file.parent)}
        at_once = [around for call in made if (around := call_of(file, call))]  # C()(x)
    by_name = [call for name in sorted(names) for call, _ in file.index.calls_of(name)]
    return [*by_name, *at_once, *_calls_by_other_names(file, function)]


def _calls_by_other_names(file: File, function: FunctionNode) -> Iterator[ast.Call]:
    """Yield the calls of what `function` is assigned to: `self.loss = focal_loss`."""
    for node, _ in file.index.names(function.name):
        statement = file.parent(node)
        if isinstance(statement, ast.Assign) and statement.value is node:
            calls = (
                c for name in names_given(node, file.parent) for c, _ in file.index.calls_of(name)
            )
            yield from (call for call in calls if named(file, call.func) is function)


def call_of(file: File, func: ast.expr) -> ast.Call | None:
    """Return the call of `func` itself."""
    around = file.parent(func)
    return around if isinstance(around, ast.Call) and around.func is func else None


def heirs(file: File, owner: ast.ClassDef) -> list[ast.ClassDef]:
    """Return `owner` and the classes of the file that derive from it."""
    classes = (definition for definition, _ in file.index.of(ast.ClassDef))
    return [heir for heir in classes if heir is owner or derives(file, heir, owner)]


def derives(file: File, heir: ast.ClassDef, owner: ast.ClassDef) -> bool:
    """Return True if the class `heir` derives from `owner`."""
    return bool(heir.bases) and owner in file.inference.lineage(heir)


def callers(file: File, function: FunctionNode) -> list[ast.Call]:
    """Return the calls of the file that run `function`."""
    return [call for call in calls_by_name(file, function) if called(file, call) is function]


def outer_calls(file: File, node: ast.AST) -> list[ast.Call]:
    """Return the calls of the file that run the function which `node` stands in."""
    function = file.function(node)
    return callers(file, function) if function is not None else []


def passed(file: File, function: ast.AST | None, name: str) -> list[ast.expr | None]:
    """Return what each call by the name of `function` passes for its parameter `name`, or None."""
    if not isinstance(function, FUNCTIONS):
        return []
    return [argument(file, name, function, call) for call in calls_by_name(file, function)]


def argument(file: File, name: str, function: FunctionNode, call: ast.Call) -> ast.expr | None:
    """Return what `call` passes to the parameter `name` of `function`."""
    is_method = isinstance(file.parent(function), ast.ClassDef)
    return argument_for(name, function, call, skip_self=is_method)


def others(file: File, function: FunctionNode, call: ast.Call) -> list[ast.expr]:
    """Return what `call` passes for the parameter `*args` of `function`."""
    is_bound = isinstance(file.parent(function), ast.ClassDef) and not is_static(function)
    return call.args[len(function.args.posonlyargs) + len(function.args.args) - is_bound :]


def receivers(file: File, function: FunctionNode) -> list[ast.Call]:
    """Return the calls that receive `function` as an argument: `Engine(step)`."""
    names = (name for name, _ in file.index.names(function.name) if named(file, name) is function)
    given = (call_with(file, name) for name in names)
    return [call for call in given if call is not None]


def call_with(file: File, node: ast.AST) -> ast.Call | None:
    """Return the call that has the argument `node`."""
    around = file.parent(node)
    call = file.parent(around) if isinstance(around, ast.keyword) else around
    return call if isinstance(call, ast.Call) and call.func is not node else None


def receives(file: File, call: ast.Call, node: ast.AST) -> tuple[FunctionNode, str] | None:
    """Return the function of the file that `call` runs, and its parameter that receives the argument `node`."""
    function = named(file, call.func)
    names = (each.arg for each in parameters(function)) if function is not None else ()
    for name in names:
        if function is not None and argument(file, name, function, call) is node:
            return function, name
    return None


def prepared(file: File, function: FunctionNode) -> Iterator[ast.Call]:
    """Yield `f(x)` for each `partial(f, x)` of the file with `function`."""
    for call, _ in file.index.calls_of("partial"):
        if call.args and function in run_by(file, call.args[0]):
            yield ast.Call(call.args[0], call.args[1:], call.keywords)


def lambdas(file: File, func: ast.expr) -> list[ast.Lambda]:
    """Return the lambdas that the name `func` may be."""
    bindings = file.reaching(func) if isinstance(func, ast.Name) else ()
    return [b.whole for b in bindings if isinstance(b.whole, ast.Lambda)]


def lambda_calls(file: File, function: ast.AST | None) -> list[ast.Call]:
    """Return the calls of the file by the name that the lambda `function` is assigned to."""
    statement = file.parent(function) if isinstance(function, ast.Lambda) else None
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    names = [target.id for target in targets if isinstance(target, ast.Name)]
    calls = (call for name in names for call, _ in file.index.calls_of(name))
    return [call for call in calls if function in lambdas(file, call.func)]


def to_lambda(name: str, function: ast.AST | None, call: ast.Call) -> list[ast.expr]:
    """Return what `call` passes for the parameter `name` of the lambda `function`."""
    names = [a.arg for a in function.args.args] if isinstance(function, ast.Lambda) else []
    by_place = [value for each, value in zip(names, call.args) if each == name]
    return [*by_place, *(k.value for k in call.keywords if k.arg == name)]


def mapped(file: File, function: ast.AST | None) -> list[ast.expr]:
    """Return what the lambda `function` is called on, each element by itself: `d.values()` of `map(lambda v: ..., d.values())`.

    Also of `max(d.values(), key=lambda v: ...)` and `values.sort(key=lambda v: ...)`.
    """
    around = file.parent(function) if isinstance(function, ast.Lambda) else None
    call = (
        file.parent(around) if isinstance(around, ast.keyword) and around.arg == "key" else around
    )
    match call:
        case ast.Call(func=ast.Name(id="map" | "filter"), args=[first, several]):
            return [several] if first is function else []
        case ast.Call(func=ast.Name(id="max" | "min" | "sorted"), args=[several]):
            return [several] if around is not call else []
        case ast.Call(func=ast.Attribute(attr="sort", value=several), args=[]):
            return [several] if around is not call else []
    return []


def run_by(file: File, func: ast.expr) -> list[FunctionNode]:
    """Return the function that a call of `func` runs, and the implementations registered for it."""
    function = named(file, func)
    if function is None or not _is_dispatching(function):
        return [] if function is None else [function]
    found: list[FunctionNode] = [node for node, _ in file.index.of(ast.FunctionDef)]
    found += [node for node, _ in file.index.of(ast.AsyncFunctionDef)]
    return [function, *(each for each in found if registered_for(file, each) is function)]


def registered_for(file: File, function: FunctionNode) -> FunctionNode | None:
    """Return the `singledispatch` function that `function` is registered for."""
    calls = (call for call, _ in file.index.calls_of("register") if len(call.args) == 2)
    by_call = (call for call in calls if named(file, call.args[1]) is function)
    for register in (*function.decorator_list, *by_call):
        if (generic := _registering(file, register)) is not None:
            return generic
    return None


def _registering(file: File, register: ast.expr) -> FunctionNode | None:
    """Return `f` of `f.register` and of `f.register(int)`, if it is a `singledispatch` function."""
    func = register.func if isinstance(register, ast.Call) else register
    if not isinstance(func, ast.Attribute) or func.attr != "register":
        return None
    generic = named(file, func.value)
    return generic if generic is not None and _is_dispatching(generic) else None


def _is_dispatching(function: FunctionNode) -> bool:
    return not _DISPATCHING.isdisjoint(map(name_of, function.decorator_list))


def every_call(file: File, function: FunctionNode) -> list[ast.Call]:
    """Return the calls of the file that may run `function`, by its name or by dispatch."""
    generic = registered_for(file, function)
    return [*callers(file, function), *(callers(file, generic) if generic is not None else ())]


def wrappers(file: File, function: FunctionNode) -> list[str]:
    """Return the names of the decorators of `function`, except those that only dispatch or register."""
    given = (d for d in function.decorator_list if _registering(file, d) is None)
    names = (name_of(d.func if isinstance(d, ast.Call) else d) for d in given)
    return [name for name in names if name not in _DISPATCHING]


def class_of_self(file: File, node: ast.Attribute) -> ast.ClassDef | None:
    """Return the class around `self.name`."""
    is_of_self = isinstance(node.value, ast.Name) and node.value.id == "self"
    return file.class_around(node) if is_of_self else None


def owner_of(file: File, node: ast.Attribute) -> ast.ClassDef | None:
    """Return the class of the file whose object has the attribute `node`."""
    return class_of_self(file, node) or file.class_of(node.value)


def properties(index: Nodes) -> dict[str, list[FunctionNode]]:
    """Return the properties of all classes of a file by their names."""
    found: dict[str, list[FunctionNode]] = {}
    for function, _ in index.of(ast.FunctionDef):
        if "property" in map(name_of, function.decorator_list):
            found.setdefault(function.name, []).append(function)
    return found


def functions_of_module(index: Nodes) -> dict[str, list[FunctionNode]]:
    """Return the functions of a file that are no methods by their names."""
    own = {each for several in methods(index).values() for each in several}
    functions: list[FunctionNode] = [node for node, _ in index.of(ast.FunctionDef)]
    functions += [node for node, _ in index.of(ast.AsyncFunctionDef)]
    found: dict[str, list[FunctionNode]] = {}
    for node in functions:
        if node not in own:
            found.setdefault(node.name, []).append(node)
    return found


def methods(index: Nodes) -> dict[str, list[FunctionNode]]:
    """Return the methods of all classes of a file by their names."""
    found: dict[str, list[FunctionNode]] = {}
    for definition, _ in index.of(ast.ClassDef):
        for node in definition.body:
            if isinstance(node, FUNCTIONS):
                found.setdefault(node.name, []).append(node)
    return found
