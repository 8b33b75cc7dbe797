"""The edges of the value-flow graph of one file: where a value comes from, and where it goes, one step at a time."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Protocol, TypeVar

from ..analysis.bindings import ITERATED, Binding
from ..analysis.scopes import FunctionNode, Scope
from ..analysis.syntax import (
    CALLED_AS_INSTANCE,
    argument_for,
    dict_entries,
    names_given,
    parameters,
    returned,
    unparsed,
)

N = TypeVar("N", bound=ast.AST)

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


class _Nodes(Protocol):
    """The nodes of a file by type and name."""

    def of(self, kind: type[N]) -> list[tuple[N, Scope]]: ...
    def scope(self, node: ast.AST) -> Scope: ...
    def calls_of(self, name: str) -> list[tuple[ast.Call, Scope]]: ...
    def names_of(self, owner: Scope, name: str) -> list[tuple[ast.Name, Scope]]: ...
    def attributes(self, name: str) -> list[tuple[ast.Attribute, Scope]]: ...
    def subscripts(self, key: str) -> list[tuple[ast.Subscript, Scope]]: ...
    def assignments(self, text: str) -> list[tuple[ast.Assign, Scope]]: ...


class File(Protocol):
    """One parsed file. Scripts have these attributes."""

    @property
    def index(self) -> _Nodes:
        """The nodes of the file."""

    def parent(self, node: ast.AST) -> ast.AST | None:
        """Return the node that `node` is a part of."""

    def ancestors(self, node: ast.AST) -> Iterator[ast.AST]:
        """Yield all nodes that `node` is a part of, the innermost first."""

    def reaching(self, name: ast.Name) -> list[Binding]:
        """Return the bindings that a read of `name` may see."""

    def function_of(self, func: ast.expr) -> FunctionNode | None:
        """Return the function or method of the file that `func` names."""


def sources(file: File, node: ast.expr) -> list[ast.expr]:
    """Return the expressions of the file whose value `node` may have; none if they are not known."""
    match node:
        case ast.IfExp(body=body, orelse=other):
            return [body, other]
        case ast.BoolOp(values=values):
            return values
        case ast.NamedExpr(value=value) | ast.Await(value=value):
            return [value]
        case ast.Name(ctx=ast.Load()):
            return [s for b in file.reaching(node) for s in _bound(file, node, b)]
        case ast.Attribute(attr=name, ctx=ast.Load(), value=ast.Name(id="self")):
            owner = class_of_self(file, node)
            return [s for a in _attributes(file, owner, name) for s in _stored(file, a)]
        case ast.Attribute(ctx=ast.Load()):
            return _assigned(file, node)
        case ast.Subscript(ctx=ast.Load(), value=owner, slice=ast.Constant(value=str(key))):
            return [*_assigned(file, node), *_entries(file, owner, key)]
        case ast.Call():
            return _returned(called(file, node))
    return []


def uses(file: File, node: ast.expr) -> list[ast.expr]:
    """Return the expressions of the file that may have the value of `node`: the inverse of `sources`."""
    found = dict.fromkeys(_near(file, node))
    return [use for use in found if any(source is node for source in sources(file, use))]


def called(file: File, call: ast.Call) -> FunctionNode | None:
    """Return the function of the file that `call` runs: `f()`, `x.f()`, or `__init__` of `C()`."""
    return named(file, call.func)


def named(file: File, func: ast.expr) -> FunctionNode | None:
    """Return the function of the file that a call of `func` runs."""
    definition: ast.AST | None = None
    match func:
        case ast.Name(id=name):
            found = file.index.scope(func).find(name)
            if found is not None and len(found[1]) == 1:
                definition = found[1][0].node
        case ast.Attribute(attr=name):
            definition = _method(class_of_self(file, func), name)
    if isinstance(definition, ast.ClassDef):
        definition = _method(definition, "__init__")
    return definition if isinstance(definition, _FUNCTIONS) else file.function_of(func)


def calls_by_name(file: File, function: FunctionNode) -> list[ast.Call]:
    """Return the calls of the file by the name of `function`; for `__init__`, of its class; for `__call__`, of its instances."""
    owner = file.parent(function)
    names, at_once = {function.name}, list[ast.AST | None]()
    if isinstance(owner, ast.ClassDef) and function.name == "__init__":
        names = {owner.name}
    elif isinstance(owner, ast.ClassDef) and function.name in CALLED_AS_INSTANCE:
        made = [call for call, _ in file.index.calls_of(owner.name)]
        names |= {name for call in made for name in names_given(call, file.parent)}
        at_once = [file.parent(call) for call in made]  # C()(x)
    by_name = [call for name in sorted(names) for call, _ in file.index.calls_of(name)]
    return [*by_name, *(call for call in at_once if isinstance(call, ast.Call))]


def callers(file: File, function: FunctionNode) -> list[ast.Call]:
    """Return the calls of the file that run `function`."""
    return [call for call in calls_by_name(file, function) if called(file, call) is function]


def passed(file: File, function: ast.AST | None, name: str) -> list[ast.expr | None]:
    """Return what each call by the name of `function` passes for its parameter `name`, or None."""
    if not isinstance(function, _FUNCTIONS):
        return []
    return [argument(file, name, function, call) for call in calls_by_name(file, function)]


def argument(file: File, name: str, function: FunctionNode, call: ast.Call) -> ast.expr | None:
    """Return what `call` passes to the parameter `name` of `function`."""
    is_method = isinstance(file.parent(function), ast.ClassDef)
    return argument_for(name, function, call, skip_self=is_method)


def _bound(file: File, node: ast.Name, binding: Binding) -> list[ast.expr]:
    """Return what `binding` gives the name `node`."""
    if binding.how == "assign":
        value = binding.part
        return [] if value is None else [value]
    if binding.how == "for":
        return _elements(binding.value, binding.path)
    home = file.index.scope(node).find(node.id)
    function = home[0].node if home is not None else None
    if binding.how != "parameter" or not isinstance(function, _FUNCTIONS):
        return []
    given = (argument(file, node.id, function, call) for call in callers(file, function))
    return [value for value in (*given, binding.value) if value is not None]


def _elements(several: ast.expr | None, path: tuple[int, ...]) -> list[ast.expr]:
    """Return what `path` takes of the elements: `loader` of `for name, loader in (("a", x), ("b", y))`."""
    if not path:
        return [] if several is None else [several]
    if not isinstance(several, (ast.Tuple, ast.List)):
        return []
    taken = several.elts if path[0] == ITERATED else several.elts[path[0] : path[0] + 1]
    return [each for element in taken for each in _elements(element, path[1:])]


def _returned(function: FunctionNode | None) -> list[ast.expr]:
    if function is None or isinstance(function, ast.AsyncFunctionDef) or function.decorator_list:
        return []
    return list(returned(function))


def class_of_self(file: File, node: ast.Attribute) -> ast.ClassDef | None:
    """Return the class around `self.name`."""
    if not (isinstance(node.value, ast.Name) and node.value.id == "self"):
        return None
    return next((a for a in file.ancestors(node) if isinstance(a, ast.ClassDef)), None)


def _method(owner: ast.ClassDef | None, name: str) -> FunctionNode | None:
    body = owner.body if owner is not None else []
    return next((s for s in body if isinstance(s, _FUNCTIONS) and s.name == name), None)


def _attributes(file: File, owner: ast.ClassDef | None, name: str) -> list[ast.Attribute]:
    """Return each `self.name` of the class `owner`."""
    if owner is None:
        return []
    return [node for node, _ in file.index.attributes(name) if class_of_self(file, node) is owner]


def _assigned(file: File, node: ast.expr) -> list[ast.expr]:
    """Return what the file assigns to an attribute or entry that is spelled like `node`."""
    return [statement.value for statement, _ in file.index.assignments(unparsed(node))]


def _entries(file: File, owner: ast.expr, key: str) -> list[ast.expr]:
    """Return the entry `key` of the dictionaries that are assigned to the name `owner`."""
    found = []
    for binding in file.reaching(owner) if isinstance(owner, ast.Name) else ():
        if binding.how == "assign" and not binding.path:
            found += [value for name, value in dict_entries(binding.value) if name == key]
    return found


def _stored(file: File, target: ast.Attribute) -> list[ast.expr]:
    """Return what an assignment gives `target`."""
    match file.parent(target):
        case ast.Assign(value=value) | ast.AnnAssign(value=ast.expr() as value):
            return [value] if isinstance(target.ctx, ast.Store) else []
    return []


def _near(file: File, node: ast.expr) -> Iterator[ast.expr]:
    """Yield the expressions that may have `node` among their sources."""
    parent = file.parent(node)
    if isinstance(parent, ast.expr):
        yield parent
    yield from _reads_of_entry(file, node, parent)
    around = parent
    while isinstance(around, (ast.Tuple, ast.List)):
        around = file.parent(around)
    match around:
        case ast.Assign(targets=targets):
            yield from _loads(file, targets)
        case ast.AnnAssign(target=target) | ast.NamedExpr(target=target):
            yield from _loads(file, [target])
        case ast.For(target=target) | ast.comprehension(target=target):
            yield from _loads(file, [target])
        case ast.Return():
            function = file.index.scope(around).function
            yield from callers(file, function) if function is not None else ()
        case ast.arguments():
            owner = file.parent(around)
            yield from _parameters(file, owner) if isinstance(owner, _FUNCTIONS) else ()
        case ast.Call() | ast.keyword():
            call = file.parent(around) if isinstance(around, ast.keyword) else around
            function = called(file, call) if isinstance(call, ast.Call) else None
            yield from _parameters(file, function) if function is not None else ()


def _reads_of_entry(file: File, node: ast.expr, parent: ast.AST | None) -> Iterator[ast.expr]:
    """Yield the subscripts that may read the value `node` of a dictionary."""
    keys: list[ast.expr | None] = []
    if isinstance(parent, ast.Dict):
        keys = [key for key, value in zip(parent.keys, parent.values) if value is node]
    elif isinstance(parent, ast.keyword) and parent.arg is not None:
        keys = [ast.Constant(parent.arg)]
    for key in keys:
        if isinstance(key, ast.Constant) and isinstance(key.value, str):
            yield from (read for read, _ in file.index.subscripts(key.value))


def _loads(file: File, targets: list[ast.expr]) -> Iterator[ast.expr]:
    for target in targets:
        match target:
            case ast.Name(id=name):
                home = file.index.scope(target).find(name)
                names = file.index.names_of(home[0], name) if home is not None else []
                yield from (load for load, _ in names)
            case ast.Attribute(attr=name):
                yield from (node for node, _ in file.index.attributes(name))
            case ast.Subscript(slice=ast.Constant(value=str(key))):
                yield from (node for node, _ in file.index.subscripts(key))
            case ast.Tuple(elts=parts) | ast.List(elts=parts):
                yield from _loads(file, parts)


def _parameters(file: File, function: FunctionNode) -> Iterator[ast.expr]:
    scope = file.index.scope(function.body[0])
    for arg in parameters(function):
        yield from (load for load, _ in file.index.names_of(scope, arg.arg))
