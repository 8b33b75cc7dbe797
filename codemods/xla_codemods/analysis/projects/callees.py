"""Find the project's function that a call runs, in any module, and the argument of each parameter.

Also calls that only prepare one: `partial(f, x)`, `mp.spawn(f, args=(x,))`, `Process(target=f, args=(x,))`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from ...flow.closure import reach
from ...flow.edges import sources
from ..inference.values import CLASS
from ..once import once
from ..scopes import Binding, FunctionNode, Scope
from ..syntax import CALLED_AS_INSTANCE, dict_entries, is_static, keyword, name_of
from .files import is_of_others

if TYPE_CHECKING:
    from ..index import Index
    from ..parsed_file import ParsedFile
    from .project import Modules, Project

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
# Functions that call another function, in a separate process or later.
PREPARING = ("partial", "spawn", "start_processes", "launch", "Process", "Thread")
_SPAWNING = frozenset({"spawn", "start_processes", "launch"})


class View(NamedTuple):
    """A module: its index and its path, and the project that looks at it."""

    indexed: Index
    path: str
    project: Project

    @property
    def modules(self) -> Modules:
        """The modules of the project."""
        return self.project.modules

    def modules_for(self, dotted: str) -> Modules | None:
        """The modules of the project if `dotted` may name something in them."""
        return None if is_of_others(dotted.partition(".")[0]) else self.modules


class Target(NamedTuple):
    """A function, the class `owner` if it is a method, and its module."""

    view: View
    function: FunctionNode
    owner: ast.ClassDef | None


class Handed(NamedTuple):
    """What a call hands to `target`; `first` parameters are given by whoever makes the call, as a process its number.

    `later`: the call itself is made elsewhere.
    """

    target: Target | None
    arguments: list[ast.expr]
    keywords: list[ast.keyword]
    later: bool = False
    first: int = 0


@once
def callees_of(script: ParsedFile) -> Callees:
    """Return what the calls of a script's program run; found once for all who ask."""
    return Callees(View(script.index, script.project.path, script.project))


class Callees:
    """What calls run. `home` is the module that is judged; the others of the project are parsed when they are met."""

    def __init__(self, home: View) -> None:
        self.home = home
        self._views: dict[str, View | None] = {home.path: home}
        self._lineages: dict[ast.ClassDef, list[tuple[View, ast.ClassDef]]] = {}

    def view(self, path: str) -> View | None:
        """The module at `path`; None where it cannot be parsed."""
        if path not in self._views:
            index = self.home.modules.whole(path)
            self._views[path] = View(index, path, self.home.project) if index else None
        return self._views[path]

    def handed(self, view: View, call: ast.Call) -> Handed | None:
        """Return what `call` passes to a function of the project; None if the function is unknown."""
        last = name_of(call.func)
        if last in PREPARING:
            prepared = self._prepared(view, call, last)
            if prepared is not None:
                return prepared
        target = self.called(view, call.func)
        return Handed(target, call.args, call.keywords) if target is not None else None

    def _prepared(self, view: View, call: ast.Call, last: str) -> Handed | None:
        function = keyword(call, "target") or keyword(call, "fn") or keyword(call, "f")
        rest = call.args
        if function is None:
            if last in {"Process", "Thread"} or not call.args:
                return None
            function, rest = call.args[0], call.args[1:]
        first = 1 if last in _SPAWNING else 0
        if isinstance(function, ast.Call):  # mp.spawn(partial(work, args), ...)
            inner = self.handed(view, function)
            return inner._replace(first=first) if inner is not None and inner.later else None
        target = self.called(view, function)
        if target is None:
            return None
        if last == "partial":
            return Handed(target, rest, [k for k in call.keywords if k.arg != "f"], True)
        given = keyword(call, "args") or (rest[0] if rest and last in _SPAWNING else None)
        arguments = list(given.elts) if isinstance(given, (ast.Tuple, ast.List)) else []
        named = keyword(call, "kwargs")
        keywords = [ast.keyword(arg=key, value=value) for key, value in dict_entries(named)]
        return Handed(target, arguments, keywords, True, first)

    # Names to functions.

    def called(self, view: View, func: ast.expr) -> Target | None:
        """The function that calling `func` runs: of a class its `__init__`."""
        index = view.indexed
        dotted = index.dotted(func)
        if dotted is not None:
            return self._imported(view, dotted)
        if isinstance(func, ast.Name) and index.scope(func).find(func.id) is None:
            brought = (self._imported(view, f"{home}.{func.id}") for home in index.module.stars)
            return next((target for target in brought if target is not None), None)
        if isinstance(func, ast.Attribute) and _is_super(func.value):
            around = index.class_around(func)
            return self.method(view, around, func.attr, 1) if around is not None else None
        value = index.value(func)
        if isinstance(value.definition, _FUNCTIONS):
            return self.target(view, value.definition)
        if isinstance(value.definition, ast.ClassDef):
            name = ("__init__",) if value.has(CLASS) else tuple(sorted(CALLED_AS_INSTANCE))
            return self._first_method(view, value.definition, name)
        if isinstance(func, ast.Attribute):
            found = self.class_of(view, func.value)
            return self.method(*found, func.attr) if found is not None else None
        made = self.class_of(view, func)
        return self._first_method(*made, tuple(sorted(CALLED_AS_INSTANCE))) if made else None

    def _first_method(
        self, view: View, definition: ast.ClassDef, names: tuple[str, ...]
    ) -> Target | None:
        found = (self.method(view, definition, name) for name in names)
        return next((target for target in found if target is not None), None)

    def _imported(self, view: View, dotted: str) -> Target | None:
        found = self.defined(view, dotted)
        if found is None:
            return None
        home, node = found
        if isinstance(node, ast.ClassDef):
            return self.method(home, node, "__init__")
        return Target(home, node, None) if isinstance(node, _FUNCTIONS) else None

    def defined(self, view: View, dotted: str) -> tuple[View, ast.AST] | None:
        """The function or class that `dotted` names in `view`, with its module."""
        modules = view.modules_for(dotted)
        found = modules.defined(dotted, view.path) if modules is not None else None
        if found is None:
            return None
        node, path = found
        home = self.view(path)
        if home is None:
            return None
        if home is self.home:  # which is parsed by itself
            bindings = home.indexed.module.bindings.get(getattr(node, "name", ""), ())
            return (home, bindings[0].node) if len(bindings) == 1 else None
        return home, node

    def method(
        self, view: View, definition: ast.ClassDef, name: str, first: int = 0
    ) -> Target | None:
        """Return the method `name` of a class or its bases, also in other modules; `first` is 1 for `super()`."""
        for home, owner in self.lineage(view, definition)[first:]:
            for statement in owner.body:
                if isinstance(statement, _FUNCTIONS) and statement.name == name:
                    return Target(home, statement, owner)
        return None

    def lineage(self, view: View, definition: ast.ClassDef) -> list[tuple[View, ast.ClassDef]]:
        """Return a class and those of the program that it derives from, the nearest first; found once."""
        if definition not in self._lineages:
            found = reach([(view, definition)], lambda place: self._bases(*place))
            self._lineages[definition] = list(found)
        return self._lineages[definition]

    def attributes(
        self, view: View, definition: ast.ClassDef, name: str
    ) -> Iterator[tuple[View, Binding]]:
        """What gives an instance of a class, or of what it derives from, its attribute `name`."""
        for of, owner in self.lineage(view, definition):
            if owner in of.indexed.inference.scopes:
                bound = of.indexed.inference.class_attributes(owner).get(name, ())
                yield from ((of, b) for b, _ in bound if b.how == "assign")

    def _bases(self, view: View, definition: ast.ClassDef) -> Iterator[tuple[View, ast.ClassDef]]:
        yield from filter(None, (self._class(view, base) for base in definition.bases))

    def _class(self, view: View, node: ast.expr) -> tuple[View, ast.ClassDef] | None:
        dotted = view.indexed.dotted(node)
        if dotted is not None:
            found = self.defined(view, dotted)
            if found is not None and isinstance(found[1], ast.ClassDef):
                return found[0], found[1]
            return None
        value = view.indexed.value(node)
        if value.has(CLASS) and isinstance(value.definition, ast.ClassDef):
            return view, value.definition
        return None

    def class_of(self, view: View, node: ast.expr) -> tuple[View, ast.ClassDef] | None:
        """Return the class of the program that `node` is an instance of."""
        definition = view.indexed.value(node).definition
        if isinstance(definition, ast.ClassDef):
            return view, definition
        made = (each for each in (node, *sources(view.indexed, node)) if isinstance(each, ast.Call))
        classes = (self._class(view, call.func) for call in made)
        return next((found for found in classes if found is not None), None)

    def object_class(self, view: View, node: ast.expr) -> tuple[View, ast.ClassDef] | None:
        """Return the class that `node` is an instance of, also of `self`."""
        around = view.indexed.class_around(node) if name_of(node) == "self" else None
        return self.class_of(view, node) or ((view, around) if around is not None else None)

    def target(self, view: View, function: ast.AST) -> Target | None:
        """Return `function` of the module of `view` with its class; None if the node is no function."""
        if not isinstance(function, _FUNCTIONS):
            return None
        around = view.indexed.scope(function).node
        return Target(view, function, around if isinstance(around, ast.ClassDef) else None)


def _is_super(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and getattr(node.func, "id", "") == "super"


def parameters(target: Target) -> list[ast.arg]:
    """Those that a call fills by place, without `self`."""
    args = target.function.args
    positional = [*args.posonlyargs, *args.args]
    skips = target.owner is not None and not is_static(target.function)
    return positional[1:] if skips else positional


def filled(handed: Handed, target: Target) -> Iterator[tuple[str, ast.expr]]:
    """Yield which parameter gets which argument, as far as is known."""
    names = [arg.arg for arg in parameters(target)][handed.first :]
    for name, argument in zip(names, handed.arguments):
        if isinstance(argument, ast.Starred):
            break
        yield name, argument
    rest, vararg = handed.arguments[len(names) :], target.function.args.vararg
    if rest and vararg is not None:
        yield vararg.arg, ast.copy_location(ast.Tuple(rest), rest[0])
    known = {a.arg for a in (*target.function.args.args, *target.function.args.kwonlyargs)}
    for given in handed.keywords:
        if given.arg in known and given.arg is not None:
            yield given.arg, given.value


def scope_of(target: Target) -> Scope:
    """Return the scope inside the function."""
    return target.view.indexed.scope(target.function.body[0])
