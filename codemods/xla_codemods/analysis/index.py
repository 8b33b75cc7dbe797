"""One walk over a file's `ast`: where the calls, names, strings and statements are that rules look at."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any, TypeVar

from . import flow
from .inference.expressions import EXPRESSIONS
from .inference.inference import Inference
from .inference.values import CLASS, Value
from .nodes import CHILDREN, COMPREHENSIONS, DEFINITIONS, FUNCTIONS, LEAVES, NAMED
from .scopes import Binding, FunctionNode, Scope, resolve
from .syntax import CALLED_AS_INSTANCE, assigned, name_of, unparsed

N = TypeVar("N", bound=ast.AST)
T = TypeVar("T")


class Tree:
    """A module with the places and values of its nodes.

    Attributes:
        index: the nodes by type and name.
        inference: computes the values of expressions.
        parents: node -> the node that it is a part of.
        module: the scope of the module.
    """

    index: Index
    inference: Inference
    parents: dict[ast.AST, ast.AST]
    module: Scope
    _found: dict[object, Any]

    def cached(self, find: Callable[..., T], *of: object) -> T:
        """Return `find(self, *of)`, computed once; `find` is a function or class."""
        key: object = (find, *of) if of else find
        if key not in self._found:
            self._found[key] = find(self, *of)
        found: T = self._found[key]
        return found

    def parent(self, node: ast.AST) -> ast.AST | None:
        """The node that `node` is a part of."""
        return self.parents.get(node)

    def ancestors(self, node: ast.AST) -> Iterator[ast.AST]:
        """Everything that `node` is a part of, innermost first."""
        current = self.parents.get(node)
        while current is not None:
            yield current
            current = self.parents.get(current)

    def upward(self, node: ast.AST) -> Iterator[tuple[ast.AST, ast.AST]]:
        """Yield `node` and its parent, the parent and its own, and so on up to the module."""
        return pairwise([node, *self.ancestors(node)])

    def statement(self, node: ast.AST) -> ast.stmt:
        """The statement that `node` is or stands in."""
        while not isinstance(node, ast.stmt):
            node = self.parents[node]
        return node

    def block(self, statement: ast.stmt) -> list[ast.stmt]:
        """The statements among which `statement` stands."""
        parent = self.parents.get(statement)
        for name in ("body", "orelse", "finalbody"):
            block = getattr(parent, name, None)
            if isinstance(block, list) and statement in block:
                return block
        return [statement]

    def bindings(self, node: ast.AST) -> list[Binding]:
        """Return the bindings of the name `node`; none if it is another expression."""
        found = self.index.scope(node).find(node.id) if isinstance(node, ast.Name) else None
        return found[1] if found is not None else []

    def only_value(self, node: ast.AST) -> ast.expr | None:
        """Return what the name `node` is assigned, if that is its only binding."""
        bindings = self.bindings(node)
        return bindings[0].whole if len(bindings) == 1 else None

    def reaching(self, name: ast.Name) -> list[Binding]:
        """Return the bindings that a read of `name` may see; none if this file does not bind it."""
        return self.index.cached(_reaching, name)

    def value(self, node: ast.AST | None, scope: Scope | None = None) -> Value:
        """What the expression `node` may be."""
        return self.inference.value(node, scope)

    def class_around(self, node: ast.AST) -> ast.ClassDef | None:
        """Return the innermost class that `node` stands in."""
        return next((a for a in self.ancestors(node) if isinstance(a, ast.ClassDef)), None)

    def class_of(self, node: ast.expr) -> ast.ClassDef | None:
        """Return the class of this file that `node` is an instance of."""
        value = self.value(node)
        is_class = isinstance(value.definition, ast.ClassDef) and not value.has(CLASS)
        return value.definition if is_class else None  # type: ignore[return-value]

    def function_of(self, func: ast.expr) -> FunctionNode | None:
        """Return the function or method of this file that a call of `func` runs; of an instance, `__call__` or `forward`."""
        value = self.value(func)
        if isinstance(value.definition, FUNCTIONS):
            return value.definition
        if isinstance(value.definition, ast.ClassDef) and not value.has(CLASS):
            found = (
                self.inference.method(value.definition, name) for name in sorted(CALLED_AS_INSTANCE)
            )
            return next((method[0] for method in found if method is not None), None)
        return self.local_method(func)

    def local_method(self, func: ast.expr, scope: Scope | None = None) -> FunctionNode | None:
        """The method of a local class that `obj.method` names."""
        if not isinstance(func, ast.Attribute):
            return None
        owner = self.value(func.value, scope).definition
        if not isinstance(owner, ast.ClassDef):
            return None
        found = self.inference.method(owner, func.attr)
        return found[0] if found else None


class Index(Tree):
    """What the walk found, in source order: `nodes` by type with the scope each stands in, and `parents`."""

    def __init__(self, module: Scope) -> None:
        self.parents: dict[ast.AST, ast.AST] = {}
        self.nodes: defaultdict[type[ast.AST], list[tuple[ast.AST, Scope]]] = defaultdict(list)
        self.module = module
        self.path = ""  # in its project
        self.inference = Inference(module, self, self.parents, EXPRESSIONS)
        self._by_name: dict[type[ast.AST], dict[str, list[tuple[Any, Scope]]]] = {}
        self._assigned: dict[tuple[str, Scope | None], list[tuple[ast.Assign, Scope]]] = {}
        self._owned: dict[str, dict[Scope | None, list[tuple[ast.Name, Scope]]]] = {}
        self._below: dict[str, dict[FunctionNode, list[ast.Name]]] = {}
        self._functions: dict[ast.AST, FunctionNode | None] = {}
        self._scopes: dict[type[ast.AST], dict[ast.AST, Scope]] = {}
        self._found = {}

    @property
    def index(self) -> Index:  # type: ignore[override]
        """Return the index itself: a module without its source."""
        return self

    def with_own_values(self) -> Index:
        """Return the same index with values that are inferred anew: a file knows more of itself than others do."""
        index = Index(self.module)
        vars(index).update(vars(self))
        index.inference = Inference(self.module, index, self.parents, EXPRESSIONS)
        index.inference.scopes = self.inference.scopes
        return index

    def of(self, kind: type[N]) -> list[tuple[N, Scope]]:
        """The nodes of type `kind`, with their scopes."""
        return self.nodes.get(kind, [])  # type: ignore[return-value]

    def dotted(self, node: ast.AST) -> str | None:
        """Return the dotted name that `node` stands for by the imports of the module."""
        return resolve(node, self.scope(node))

    def calls_of(self, name: str) -> list[tuple[ast.Call, Scope]]:
        """The calls whose callee's last name is `name`."""
        return self._named(ast.Call).get(name, [])

    def names(self, name: str) -> list[tuple[ast.Name, Scope]]:
        """Return the uses of the identifier `name` in all scopes, in source order."""
        return self._named(ast.Name).get(name, [])

    def names_of(self, owner: Scope, name: str) -> list[tuple[ast.Name, Scope]]:
        """Return the uses of the variable `name` of the scope `owner`, in functions inside it as well."""
        if name not in self._owned:
            by_owner = self._owned[name] = {}
            for node, scope in self.names(name):
                found = scope.find(name)
                by_owner.setdefault(found[0] if found else None, []).append((node, scope))
        return self._owned[name].get(owner, [])

    def names_in(self, function: FunctionNode | None, name: str) -> list[ast.Name]:
        """Return the uses of `name` whose innermost function is `function`, None for the module."""
        return [node for node, _ in self.names(name) if self.function(node) is function]

    def names_below(self, function: FunctionNode, name: str) -> list[ast.Name]:
        """Return the uses of `name` in the body of `function`, in functions inside it as well."""
        if name not in self._below:
            by_function = self._below[name] = {}
            for node, _ in self.names(name):
                # A default or a decorator belongs to the functions around its own.
                around = self.function(self.statement(node))
                while around is not None:
                    by_function.setdefault(around, []).append(node)
                    around = self.function(around)
        return self._below[name].get(function, [])

    def reads_of(self, owner: Scope, name: str) -> list[ast.Name]:
        """Return the reads of `name` of `owner`, also in functions inside it, in source order."""
        return [n for n, _ in self.names_of(owner, name) if isinstance(n.ctx, ast.Load)]

    def same(self, name: ast.Name) -> list[ast.Name]:
        """Return the uses of the variable `name`, also in other functions; none if the file does not bind it."""
        found = self.scope(name).find(name.id)
        return [use for use, _ in self.names_of(found[0], name.id)] if found is not None else []

    def reads(self, name: ast.Name) -> list[ast.Name]:
        """Return the reads of the variable `name`, also in other functions."""
        return [use for use in self.same(name) if isinstance(use.ctx, ast.Load)]

    def attributes(self, name: str) -> list[tuple[ast.Attribute, Scope]]:
        """Return the attributes called `name`, of any object, in source order."""
        return self._named(ast.Attribute).get(name, [])

    def _named(self, kind: type[ast.AST]) -> dict[str, list[tuple[Any, Scope]]]:
        """Return the nodes of a type by their names; calls by the last name of the callee."""
        if kind not in self._by_name:
            found = self._by_name[kind] = {}
            for node, scope in self.nodes.get(kind, ()):
                name = name_of(node.func if isinstance(node, ast.Call) else node)
                found.setdefault(name, []).append((node, scope))
        return self._by_name[kind]

    def stores(self, name: str) -> list[ast.Attribute]:
        """Return the attributes called `name`, of any object, that are set or deleted."""
        return [node for node, _ in self.attributes(name) if not isinstance(node.ctx, ast.Load)]

    def subscripts(self, key: str) -> list[tuple[ast.Subscript, Scope]]:
        """Return the subscripts with the constant `key`, in source order."""
        return [
            (node, scope)
            for node, scope in self.of(ast.Subscript)
            if isinstance(node.slice, ast.Constant) and node.slice.value == key
        ]

    def assignments(self, text: str, scope: Scope | None = None) -> list[tuple[ast.Assign, Scope]]:
        """Return the assignments with a target that is spelled `text`, in `scope` or in all."""
        if not self._assigned:
            for node, inside in self.of(ast.Assign):
                for target in dict.fromkeys(map(unparsed, node.targets)):
                    self._assigned.setdefault((target, None), []).append((node, inside))
                    self._assigned.setdefault((target, inside), []).append((node, inside))
        return self._assigned.get((text, scope), [])

    def values_of(self, text: str) -> list[ast.expr]:
        """Return what the file assigns to what is spelled `text`, also in `a, b = x, y`."""
        return self.cached(_values_by_target).get(text, [])

    def spelled(self, node: ast.expr) -> list[ast.expr]:
        """Return the nodes that are spelled like `node`, a name, attribute or subscript."""
        named = self.names if isinstance(node, ast.Name) else self.attributes
        name = name_of(node)
        candidates = named(name) if name else self.of(type(node))
        text = unparsed(node)
        return [each for each, _ in candidates if unparsed(each) == text]

    def calls_spelled(self, text: str) -> list[ast.Call]:
        """Return the calls whose callee is spelled `text`, in source order."""
        last = text.rpartition(".")[2]
        calls = self.calls_of(last if last.isidentifier() else "")
        return [call for call, _ in calls if unparsed(call.func) == text]

    def function(self, node: ast.AST) -> FunctionNode | None:
        """Return the innermost function around `node`, or None if it is at module level."""
        known, parents, passed = self._functions, self.parents, []
        current: ast.AST | None = node
        found: FunctionNode | None = None
        while current is not None:
            if current in known:
                found = known[current]
                break
            passed.append(current)
            current = parents.get(current)
            if isinstance(current, FUNCTIONS):
                found = current
                break
        known.update(dict.fromkeys(passed, found))
        return found

    def scope(self, node: ast.AST) -> Scope:
        """The scope that `node` stands in."""
        kind = type(node)
        if kind in _ASKED_OFTEN:
            known = self._scopes.get(kind)
            if known is None:
                known = self._scopes[kind] = dict(self.nodes.get(kind, ()))
            if node in known:
                return known[node]
        return self._scope_around(node)

    def _scope_around(self, node: ast.AST) -> Scope:
        current: ast.AST | None = node
        child: ast.AST | None = None
        scopes = self.inference.scopes
        while current is not None:
            if child is not None and current in scopes and _inside(child, current):
                return scopes[current]
            child, current = current, self.parents.get(current)
        return self.module


def _reaching(index: Index, name: ast.Name) -> list[Binding]:
    found = index.scope(name).find(name.id)
    return flow.reaching(found[1], name, found[0], index.parents) if found else []


def build(tree: ast.Module, text: str, module: Scope | None = None) -> Index:
    """Walk `tree`, whose scope is `module` if there is one already."""
    index = Index(module or Scope(tree, None, text))
    for statement in tree.body:
        index.parents[statement] = tree
        _walk(index, statement, index.module)
    return index


def _walk(index: Index, node: ast.AST, scope: Scope) -> None:
    """Note `node` and all below it."""
    nodes, parents = index.nodes, index.parents
    stack = [node]
    while stack:
        node = stack.pop()
        kind = type(node)
        nodes[kind].append((node, scope))
        if kind in LEAVES:
            continue
        below = CHILDREN[kind](node)
        for child in below:
            parents[child] = node
        if kind in _OPENS:
            inside = index.inference.inner(node, scope)  # type: ignore[arg-type]
            for child in below:
                _walk(index, child, inside if _inside(child, node) else scope)
        else:
            below.reverse()
            stack += below


_ASKED_OFTEN = frozenset({ast.Call, ast.Name, ast.Attribute})  # for their scopes

_OPENS = frozenset({*DEFINITIONS, *COMPREHENSIONS})


def _inside(child: ast.AST, opener: ast.AST) -> bool:
    """True if `child` is read in the scope that `opener` opens, not in the one around it."""
    if isinstance(opener, NAMED):
        return isinstance(child, ast.stmt)
    if isinstance(opener, ast.Lambda):
        return child is opener.body
    return True


def _values_by_target(index: Index) -> dict[str, list[ast.expr]]:
    found: dict[str, list[ast.expr]] = {}
    for statement, _ in index.of(ast.Assign):
        for target in statement.targets:
            for each, value in assigned(target, statement.value):
                found.setdefault(unparsed(each), []).append(value)
    return found
