"""Infer the value of an expression on demand, through assignments, attributes, calls and returns.

A name is the join of the bindings that reach its use (see `flow`). Nothing is evaluated twice, a cycle yields what is
known without the cycle, and an undetermined value is `UNKNOWN`.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, TypeVar

from ...flow.by_text import calls_by_text
from ...flow.calls import File, argument, calls_by_name, lambda_calls, mapped, methods, to_lambda
from ...flow.closure import reach
from ...flow.containers import ANY, appended, held, iterates_keys
from .. import flow
from ..loops import is_called_a_loader
from ..nodes import FUNCTIONS
from ..scopes import ITERATED, Binding, FunctionNode, Scope, ScopeNode, resolve
from ..syntax import (
    CALLED_AS_INSTANCE,
    argument_for,
    is_static,
    name_of,
    parameters,
    returned,
)
from .annotations import annotated, kinds_of
from .attributes import attributes_bound, settled, settled_attribute
from .values import (
    ACCEL,
    ARGUMENTS,
    BATCH,
    CLASS,
    DEVICE_LOADER,
    FUNCTION,
    HOST,
    INSTANCE,
    LOADER,
    NONE,
    PARAMETERS,
    SETTINGS,
    TENSOR,
    UNKNOWN,
    WEIGHT,
    Value,
    join,
    of,
)

T = TypeVar("T")

# The values that other modules pass for a parameter of a function.
Passed = Callable[[str, FunctionNode], Iterator[Value]]
_PROPERTIES = frozenset({"property", "cached_property", "lazy_property"})
_ONLY_NONE = frozenset({NONE})
_MAX_DEPTH = 60
_MAX_WORK = 20_000  # evaluations


class Inference:
    """The values of one file's expressions, each evaluated once.

    `calls(name)` gives the calls whose callee has this last name; `expressions` the function that evaluates each
    kind of node (`expressions.EXPRESSIONS`, handed in because these functions call back).
    """

    def __init__(
        self,
        module: Scope,
        file: File,
        parents: Mapping[ast.AST, ast.AST],
        expressions: Mapping[type[ast.AST], Callable[..., Value]],
    ) -> None:
        self.module = module
        self.file, self.calls = file, file.index.calls_of
        self.parents = parents
        self.expressions = expressions
        self.own: Callable[[str], Value | None] | None = None  # what a user's own names return
        self.elsewhere: Callable[[str], Value] | None = None  # what names of other modules return
        self.passed: Passed | None = None
        self.is_run_elsewhere: Callable[[FunctionNode], bool] | None = None
        # whether another module makes CUDA the default of what calling this name makes
        self.has_default: Callable[[str], bool] | None = None
        self.scopes: dict[ScopeNode, Scope] = {module.node: module}
        self._memo: dict[ast.AST, Value] = {}
        self._active: dict[ast.AST, int] = {}  # being evaluated: at which depth
        self._cycle = _MAX_DEPTH  # the outermost depth that a cycle led back to
        self._drafts: dict[ast.AST, tuple[Value, int]] = {}  # with the depth that each depends on
        self._drafted: list[ast.AST] = []
        self._work = 0
        self._attributes: dict[ast.ClassDef, dict[str, list[tuple[Binding, Scope]]]] = {}
        self._remembered: dict[object, Any] = {}

    def inner(self, node: ScopeNode, parent: Scope) -> Scope:
        """The scope of a function, class, lambda or comprehension that stands in `parent`."""
        scope = self.scopes.get(node)
        if scope is None:
            scope = self.scopes[node] = Scope(node, parent)
        return scope

    def value(self, node: ast.AST | None, scope: Scope | None = None) -> Value:
        """What the expression `node` may be, read in `scope`, or in the scope that it stands in."""
        if node is None:
            return UNKNOWN
        found = self._memo.get(node)
        if found is not None:
            return found
        if node in self._active:
            self._cycle = min(self._cycle, self._active[node])
            return UNKNOWN
        draft = self._drafts.get(node)
        if draft is not None:
            self._cycle = min(self._cycle, draft[1])
            return draft[0]
        handler = self.expressions.get(type(node))
        depth = len(self._active)
        if handler is None or depth >= _MAX_DEPTH:
            return UNKNOWN
        around, self._cycle = self._cycle, _MAX_DEPTH
        first = len(self._drafted)
        self._active[node] = depth
        self._work += 1
        try:
            result = handler(self, node, scope or self.file.index.scope(node))
        finally:
            del self._active[node]
        if self._cycle >= depth:
            self._memo[node] = result
            if len(self._drafted) > first:
                self._close(first)
            self._cycle = around
        else:  # cut short by a cycle that is still open: good for what is evaluated in it, no final word
            self._drafts[node] = (result, self._cycle)
            self._drafted.append(node)
            self._cycle = min(self._cycle, around)
        return result

    def remembered(self, find: Callable[..., T], *of: object) -> T:
        """Return `find(*of)`, found once; again if a cycle that is still open has cut it short."""
        key = (find, *of)
        if key in self._remembered:
            known: T = self._remembered[key]
            return known
        around, self._cycle = self._cycle, _MAX_DEPTH
        found = find(*of)
        if self._cycle == _MAX_DEPTH:
            self._remembered[key] = found
        self._cycle = min(around, self._cycle)
        return found

    def _close(self, first: int) -> None:
        """Finish a cycle: values drafted in it are evaluated again on demand.

        That is quadratic in the size of the cycle, so beyond some work the drafts are taken as they are.
        """
        for node in self._drafted[first:]:
            result, _ = self._drafts.pop(node)
            if self._work > _MAX_WORK:
                self._memo[node] = result
        del self._drafted[first:]

    def name(self, node: ast.Name, scope: Scope) -> Value:
        """What the local name `node`, read in `scope`, may be."""
        found = scope.find(node.id)
        if found is None:
            return UNKNOWN
        home, bindings = found
        reaching = flow.reaching(bindings, node, home, self.parents)
        bound = [(binding, self.bound(binding, home)) for binding in reaching]
        return join(*settled(node.id, bound))

    def bound(self, binding: Binding, scope: Scope) -> Value:
        """What one binding binds."""
        if binding.how == "parameter":
            return self._parameter(binding, scope)
        if binding.how in {"def", "class"}:
            return self._definition(binding.node, scope)
        if binding.value is None:
            return UNKNOWN
        if binding.how == "buffer":  # it goes where its module goes
            return of(TENSOR)
        value = (
            self._with(binding, scope)
            if binding.how == "with"
            else self.value(binding.value, self._for(binding, scope))
        )
        if value.items == () and binding.path[:1] == (ITERATED,):
            value = Value(element=self.appended(binding.value))
        for step in binding.path:
            value = self.element(value) if step == ITERATED else value.item(step)
        if binding.how == "for":
            if value == UNKNOWN and is_called_a_loader(binding.value):
                return of(TENSOR, BATCH)
            if value.has(TENSOR) and iterates_keys(self.file, binding.node):
                return UNKNOWN
        return value

    def returned(
        self, function: FunctionNode, scope: Scope, by: tuple[ast.Call, Scope] | None = None
    ) -> Value:
        """The join of what `function` returns (or, for a generator, an iterable of what it yields).

        `by`: the call, of whose arguments it may hand one back: `default(device, self.device)`. Not of a method, which may
        be called of its class and of an object.
        """
        if isinstance(scope.node, ast.ClassDef):
            by = None
        inner = self.inner(function, scope)
        own = (
            n.value for n, _ in self.file.index.of(ast.Yield) if self.file.function(n) is function
        )
        if yields := [self.value(value, inner) for value in own if value is not None]:
            return Value(element=join(*yields))
        found = (self._handed_back(value, inner, function, by) for value in returned(function))
        returns = [value for values in found for value in values]
        return join(*returns) if returns else UNKNOWN

    def _handed_back(
        self,
        value: ast.expr,
        inner: Scope,
        function: FunctionNode,
        by: tuple[ast.Call, Scope] | None,
    ) -> Iterator[Value]:
        """What returning `value` gives; of a parameter, what the call hands over for it, and not what others do."""
        if by is not None and isinstance(value, ast.Name):
            bindings = inner.bindings.get(value.id, ())
            if bindings and all(b.how == "parameter" for b in bindings):
                given = argument_for(value.id, function, by[0], skip_self=False)
                if given is not None:
                    yield self.value(given, by[1])
                    return
            rest = function.args.vararg
            if rest is not None and bindings and all(_is_element(b, rest.arg) for b in bindings):
                if not any(isinstance(given, ast.Starred) for given in by[0].args):
                    yield self._others(rest.arg, function, by[0], 0).element or UNKNOWN
                    return
        if by is not None and isinstance(value, (ast.IfExp, ast.BoolOp)):
            parts = value.values if isinstance(value, ast.BoolOp) else (value.body, value.orelse)
            for branch in parts:
                yield from self._handed_back(branch, inner, function, by)
        elif by is not None and (func := _local_call(value, inner)) is not None:
            # `arg() if callable(arg) else arg`: what other calls hand over is not run here
            if any(v.definition for v in self._handed_back(func, inner, function, by)):
                yield self.value(value, inner)
        else:
            yield self.value(value, inner)

    def attribute_of(self, definition: ast.ClassDef, name: str) -> Value:
        """What `self.<name>` may be in the local class `definition`, or in its local bases."""
        for owner in self.lineage(definition):
            bindings = self.class_attributes(owner).get(name)
            if bindings:
                bound = [(binding, self._attribute(binding, home)) for binding, home in bindings]
                is_run = partial(self._is_run, owner)
                found = join(*settled_attribute(f"self.{name}", bound, is_run))
                if found.kinds == _ONLY_NONE:
                    return join(found, self._set_from_outside(name, definition))
                if owner is definition or found != UNKNOWN:
                    return found
        return self._set_from_outside(name, definition)

    def _is_run(self, owner: ast.ClassDef, binding: Binding) -> bool:
        """Return True if `__init__` of `owner` makes the binding, or a method that the file calls on its objects."""
        function = self.file.function(binding.node)
        if function is None or function.name == "__init__":
            return function is not None
        funcs = (call.func for call, _ in self.calls(function.name))
        objects = (self.value(f.value) for f in funcs if isinstance(f, ast.Attribute))
        is_run_here = any(value.definition is owner for value in objects)
        others = self.is_run_elsewhere
        return is_run_here or (others is not None and others(function))

    def _set_from_outside(self, name: str, definition: ast.ClassDef) -> Value:
        """Return what code outside of the class `definition` stores as `name`: `callback.learner = self`.

        In objects of this class, and of unknown classes if an object stores itself.
        """
        found = []
        for target in self.file.index.stores(name):
            statement, owner = self.parents.get(target), target.value
            if isinstance(statement, ast.Assign) and isinstance(owner, ast.Name):
                value = self.value(owner) if owner.id != "self" else of(NONE)
                heir = value.definition
                is_heir = isinstance(heir, ast.ClassDef) and definition in self.lineage(heir)
                is_unknown = heir is None and name_of(statement.value) == "self"
                if not value.kinds - {INSTANCE} and (is_heir or is_unknown):
                    found.append(self.value(statement.value))
        return join(*found)

    def lineage(self, definition: ast.ClassDef) -> list[ast.ClassDef]:
        """Return the local class `definition` and those it derives from, each once."""
        if definition not in self.scopes:
            return []
        if not definition.bases:
            return [definition]
        return self.remembered(self._lineage, definition)

    def _lineage(self, definition: ast.ClassDef) -> list[ast.ClassDef]:
        return list(reach([definition], self._bases))

    def _bases(self, definition: ast.ClassDef) -> list[ast.ClassDef]:
        scope = self.scopes[definition].parent or self.scopes[definition]
        parents = (self.value(base, scope).definition for base in definition.bases)
        return [p for p in parents if isinstance(p, ast.ClassDef) and p in self.scopes]

    def _attribute(self, binding: Binding, home: Scope) -> Value:
        """Return the value of one binding in a class when it is read: for a property, the value that it returns."""
        if binding.how == "def" and isinstance(binding.node, FUNCTIONS):
            if any(name_of(d) in _PROPERTIES for d in binding.node.decorator_list):
                return self.returned(binding.node, home)
        return self.bound(binding, home)

    def class_attributes(self, definition: ast.ClassDef) -> dict[str, list[tuple[Binding, Scope]]]:
        """`self.<name> = ...` in any method, and the class's own names."""
        found = self._attributes.get(definition)
        if found is None:
            scope = self.scopes[definition]
            found = {
                name: [(b, scope) for b in bindings] for name, bindings in scope.bindings.items()
            }
            self._attributes[definition] = found
            has_buffers = "register_buffer" in scope.text
            for method in definition.body:
                if isinstance(method, FUNCTIONS) and method.args.args:
                    inner = self.inner(method, scope)
                    this = method.args.args[0].arg
                    for attribute, binding in attributes_bound(method, this, has_buffers):
                        found.setdefault(attribute, []).append((binding, inner))
        return found

    def base_kind(self, definition: ast.ClassDef, scope: Scope) -> frozenset[str]:
        """Kinds of an instance of a local class, by what it derives from."""
        kinds: set[str] = {INSTANCE}
        for owner in self.lineage(definition):
            own = self.scopes[owner]
            home = scope if owner is definition else own.parent or own
            for base in owner.bases:
                dotted = resolve(base, home)
                kinds |= kinds_of(dotted or "")
        return frozenset(kinds)

    # Bindings.

    def _for(self, binding: Binding, scope: Scope) -> Scope:
        """A comprehension's first iterable is read in the scope around it; the others hardly differ."""
        if isinstance(binding.node, ast.comprehension) and scope.parent is not None:
            return scope.parent
        return scope

    def _with(self, binding: Binding, scope: Scope) -> Value:
        value = self.value(binding.value, scope)
        if isinstance(binding.value, ast.Call):
            dotted = resolve(binding.value.func, scope)
            if dotted == "apex.amp.scale_loss" and binding.value.args:
                return self.value(binding.value.args[0], scope)
        return value

    def _parameter(self, binding: Binding, scope: Scope) -> Value:
        function = scope.node
        assert isinstance(binding.node, ast.arg)
        if isinstance(function, ast.Lambda):
            around = scope.parent or scope
            several = mapped(self.file, function) if len(function.args.args) == 1 else ()
            passed = (
                to_lambda(binding.node.arg, function, call)
                for call in lambda_calls(self.file, function)
            )
            return join(
                *(self.element(self.value(each, around)) for each in several),
                *(self.value(each) for given in passed for each in given),
            )
        assert isinstance(function, FUNCTIONS)
        outer = scope.parent or scope
        owner = outer.node
        first = function.args.args[0] if function.args.args else None
        if isinstance(owner, ast.ClassDef) and binding.node is first and not is_static(function):
            return self.instance(owner, outer.parent or outer)
        if any(_is_hydras(d, outer) for d in function.decorator_list):
            return of(ARGUMENTS, SETTINGS)
        values = [annotated(self, binding.node.annotation, scope)]
        if binding.value is not None:
            values.append(self.value(binding.value, outer))
        values += self._arguments(binding.node.arg, function, owner)
        return join(*values)

    def _arguments(
        self, name: str, function: FunctionNode, owner: ast.AST | None
    ) -> Iterator[Value]:
        """What the calls in this file pass for the parameter `name`."""
        method = isinstance(owner, ast.ClassDef)
        calls = calls_by_name(self.file, function)
        if method:
            if len(self.file.index.cached(methods).get(function.name, ())) > 1:
                calls = [call for call in calls if not self._runs_another(call, function)]
        calls = [*calls, *(c.passes for c in calls_by_text(self.file, function.name))]
        is_of_many = name in {arg.arg for arg in (function.args.vararg, function.args.kwarg) if arg}
        for call in calls:
            if is_of_many:
                skipped = method and not is_static(function)
                yield self._others(name, function, call, skipped)
            elif (given := argument(self.file, name, function, call)) is not None:
                yield self.value(given)
        if self.passed is not None:
            yield from self.passed(name, function)

    def _runs_another(self, call: ast.Call, method: FunctionNode) -> bool:
        """Return True if `call` surely runs a method of the same name of an unrelated class.

        All methods that calls of instances run, such as `forward`, are taken to receive the same kinds.
        """
        if not isinstance(call.func, ast.Attribute) or method.name in CALLED_AS_INSTANCE:
            return False
        owner = self.value(call.func.value, self.file.index.scope(call)).definition
        own = self.file.parent(method)
        if not isinstance(owner, ast.ClassDef) or not isinstance(own, ast.ClassDef):
            return False
        return own not in self.lineage(owner) and owner not in self.lineage(own)

    def _others(self, name: str, function: FunctionNode, call: ast.Call, skipped: int) -> Value:
        """Return what `call` passes for `*args` or `**kwargs`, whichever is called `name`; `skipped` is 1 for a method."""
        if function.args.vararg is not None and function.args.vararg.arg == name:
            own = len(function.args.posonlyargs) + len(function.args.args) - skipped
            others = [each for each in call.args[own:] if not isinstance(each, ast.Starred)]
            return Value(element=join(*map(self.value, others)))
        own_names = {parameter.arg for parameter in parameters(function)}
        fields: dict[str, Value] = {}
        elements: list[Value] = []
        for each in call.keywords:
            value = self.value(each.value)
            if each.arg is None:
                fields |= value.fields or {}
                elements += filter(None, [value.element])
            elif each.arg not in own_names:
                fields[each.arg] = value
        return Value(element=join(*elements) if elements else None, fields=fields)

    def _definition(self, node: ast.AST, scope: Scope) -> Value:
        if isinstance(node, ast.ClassDef):
            self.inner(node, scope)
            return Value(frozenset({CLASS}), definition=node)
        assert isinstance(node, FUNCTIONS)
        self.inner(node, scope)
        return Value(frozenset({FUNCTION}), definition=node)

    def instance(self, definition: ast.ClassDef, scope: Scope) -> Value:
        self.inner(definition, scope)
        return Value(self.base_kind(definition, scope), definition=definition)

    def entry(self, dictionary: ast.expr) -> Value:
        """Return what is stored under any key of `dictionary`, which is created empty."""
        index = self.file.index
        stored = held(self.file, dictionary, ANY)
        return join(*(self.value(value, index.scope(value)) for value in stored))

    def stored(self, dictionary: ast.expr) -> Value:
        """Return what is stored under any key of `dictionary`."""
        value = self.value(dictionary, self.file.index.scope(dictionary))
        if value.fields is None:
            return UNKNOWN
        known = [*value.fields.values(), *filter(None, [value.element])]
        return join(*known) if known else self.entry(dictionary)

    def appended(self, values: ast.expr) -> Value:
        """Return an element of the list `values`, which is created empty."""
        index = self.file.index
        return join(*(self.value(each, index.scope(each)) for each in appended(self.file, values)))

    def element(self, value: Value) -> Value:
        """One element of iterating `value`."""
        if value.kinds >= {LOADER, DEVICE_LOADER}:  # self.loader = accelerator.prepare(self.loader)
            return of(TENSOR, BATCH)
        if value.has(LOADER):
            return of(TENSOR, BATCH, HOST)
        if value.has(DEVICE_LOADER):
            return of(TENSOR, BATCH, ACCEL) if value.element is None else value.element
        if value.has(PARAMETERS):
            return value.element or of(TENSOR, WEIGHT)
        if value.has(INSTANCE) and isinstance(value.definition, ast.ClassDef):
            method = self.method(value.definition, "__iter__")
            if method is not None:
                returned = self.returned(*method)
                return returned.element or UNKNOWN
        return value.iterated()

    def method(self, definition: ast.ClassDef, name: str) -> tuple[FunctionNode, Scope] | None:
        """The method `name` of a local class, and the scope it stands in."""
        for owner in self.lineage(definition):
            scope = self.scopes[owner]
            for binding in scope.bindings.get(name, ()):
                if isinstance(binding.node, FUNCTIONS):
                    return binding.node, scope
        return None


def _local_call(value: ast.expr, inner: Scope) -> ast.Name | None:
    """Return the name that `value` calls, if it is bound in the function, as parameters are."""
    match value:
        case ast.Call(func=ast.Name(id=name) as func) if name in inner.bindings:
            return func
    return None


def _is_element(binding: Binding, several: str) -> bool:
    """Return True for `arg` of `for arg in args`, where `several` is "args"."""
    of, path = binding.value, binding.path
    return isinstance(of, ast.Name) and of.id == several and path == (ITERATED,)


def _is_hydras(decorator: ast.expr, scope: Scope) -> bool:
    """`@hydra.main(...)`: what it decorates is given the settings."""
    callee = decorator.func if isinstance(decorator, ast.Call) else decorator
    return resolve(callee, scope) == "hydra.main"
