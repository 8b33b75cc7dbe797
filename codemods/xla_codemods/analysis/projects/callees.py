"""Find the project's function that a call runs, in any module, and the argument of each parameter.

Also calls that only prepare one: `partial(f, x)`, `mp.spawn(f, args=(x,))`, `Process(target=f, args=(x,))`.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import NamedTuple

from ...flow.closure import reach
from ...flow.edges import sources
from ..index import Index
from ..inference.values import CLASS
from ..nodes import FUNCTIONS
from ..once import once
from ..parsed_file import ParsedFile
from ..scopes import Binding, FunctionNode, Scope
from ..syntax import CALLED_AS_INSTANCE, dict_entries, is_static, keyword, name_of, returned
from .files import is_of_others
from .project import Modules, Project

# Functions that call another function, in a separate process or later.
PREPARING = ("partial", "spawn", "start_processes", "launch", "Process", "Thread")
_OF_CLASSES = frozenset({"classmethod", "staticmethod"})
_SPAWNING = frozenset({"spawn", "start_processes", "launch"})


class Target(NamedTuple):
    """A function, the class `owner` if it is a method, and its module."""

    home: Index
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
    return Callees(script.index, script.project)


class Callees:
    """What calls run. `home` is the module that is judged; the others of the project are parsed when they are met."""

    def __init__(self, home: Index, project: Project) -> None:
        self.home, self.project = home, project
        self._lineages: dict[ast.ClassDef, list[tuple[Index, ast.ClassDef]]] = {}
        self._known: dict[ast.expr, Target | None] = {}
        self._is_home_met = False  # in what is being looked for

    @cached_property
    def _known_elsewhere(self) -> dict[ast.expr, Target | None]:
        """What calls in other modules run, known to all files of the project."""
        return self.project.modules.remembered(("what calls run", ""), dict)

    def module(self, path: str) -> Index | None:
        """The module at `path`; None where it cannot be parsed."""
        if path == self.home.path:
            self._is_home_met = True
            return self.home
        return self.project.modules.whole(path)

    def modules_for(self, dotted: str) -> Modules | None:
        """The modules of the project, if `dotted` may name something in them."""
        return None if is_of_others(dotted.partition(".")[0]) else self.project.modules

    def handed(self, index: Index, call: ast.Call) -> Handed | None:
        """Return what `call` passes to a function of the project; None if the function is unknown."""
        last = name_of(call.func)
        if last in PREPARING:
            prepared = self._prepared(index, call, last)
            if prepared is not None:
                return prepared
        target = self.called(index, call.func)
        return Handed(target, call.args, call.keywords) if target is not None else None

    def _prepared(self, index: Index, call: ast.Call, last: str) -> Handed | None:
        function = keyword(call, "target") or keyword(call, "fn") or keyword(call, "f")
        rest = call.args
        if function is None:
            if last in {"Process", "Thread"} or not call.args:
                return None
            function, rest = call.args[0], call.args[1:]
        first = 1 if last in _SPAWNING else 0
        if isinstance(function, ast.Call):  # mp.spawn(partial(work, args), ...)
            inner = self.handed(index, function)
            return inner._replace(first=first) if inner is not None and inner.later else None
        target = self.called(index, function)
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

    def called(self, index: Index, func: ast.expr) -> Target | None:
        """The function that calling `func` runs: of a class its `__init__`."""
        if func in self._known:
            return self._known[func]
        if index is not self.home and func in self._known_elsewhere:
            found = self._known_elsewhere[func]
            if found is None or found.home.path != self.home.path:
                return found
        self._is_home_met = index is self.home
        found = self._called(index, func)
        (self._known if self._is_home_met else self._known_elsewhere)[func] = found
        return found

    def _called(self, index: Index, func: ast.expr) -> Target | None:
        dotted = index.dotted(func)
        if dotted is not None:
            return self._imported(index, dotted)
        if isinstance(func, ast.Attribute) and _is_super(func.value):
            around = index.class_around(func)
            return self.method(index, around, func.attr, 1) if around is not None else None
        value = index.value(func)
        if isinstance(value.definition, FUNCTIONS):
            return self.target(index, value.definition)
        if isinstance(value.definition, ast.ClassDef):
            name = ("__init__",) if value.has(CLASS) else tuple(sorted(CALLED_AS_INSTANCE))
            return self._first_method(index, value.definition, name)
        if isinstance(func, ast.Attribute):
            found = self.class_of(index, func.value)
            return self.method(*found, func.attr) if found is not None else None
        made = self.class_of(index, func)
        if made is not None:
            return self._first_method(*made, tuple(sorted(CALLED_AS_INSTANCE)))
        return self._made(index, func)

    def _made(self, index: Index, func: ast.expr) -> Target | None:
        """Return the function that a function of another module makes: `step = make_step(model)`."""
        for home, node in reach([(index, func)], lambda place: self._origins(*place)):
            definition = home.value(node).definition
            if isinstance(definition, FUNCTIONS):
                return self.target(home, definition)
        return None

    def _origins(self, index: Index, node: ast.expr) -> list[tuple[Index, ast.expr]]:
        """Return the expressions of the program whose value `node` may have, each with its module."""
        dotted = index.dotted(node.func) if isinstance(node, ast.Call) else None
        maker = self._imported(index, dotted) if dotted is not None else None
        if maker is not None:
            return [(maker.home, value) for value in returned(maker.function)]
        return [(index, value) for value in sources(index, node)]

    def _first_method(
        self, index: Index, definition: ast.ClassDef, names: tuple[str, ...]
    ) -> Target | None:
        found = (self.method(index, definition, name) for name in names)
        return next((target for target in found if target is not None), None)

    def _imported(self, index: Index, dotted: str) -> Target | None:
        found = self.defined(index, dotted)
        if found is None:
            return self._static(index, *dotted.rpartition(".")[::2])
        home, node = found
        if isinstance(node, ast.ClassDef):
            return self.method(home, node, "__init__")
        return Target(home, node, None) if isinstance(node, FUNCTIONS) else None

    def _static(self, index: Index, owner: str, name: str) -> Target | None:
        """Return the method `name` that the class `owner` has without an object: `Task.batches()`."""
        match self.defined(index, owner):
            case (home, ast.ClassDef() as definition):
                found = self.method(home, definition, name)
                wrappers = map(name_of, found.function.decorator_list) if found is not None else ()
                return None if _OF_CLASSES.isdisjoint(wrappers) else found
        return None

    def defined(self, index: Index, dotted: str) -> tuple[Index, ast.AST] | None:
        """The function or class that `dotted` names in the module `index`, with its module."""
        modules = self.modules_for(dotted)
        found = modules.defined(dotted, index.path) if modules is not None else None
        if found is None:
            return None
        node, path = found
        home = self.module(path)
        if home is None:
            return None
        if home is self.home:  # which is parsed by itself
            bindings = home.module.bindings.get(getattr(node, "name", ""), ())
            return (home, bindings[0].node) if len(bindings) == 1 else None
        return home, node

    def method(
        self, index: Index, definition: ast.ClassDef, name: str, first: int = 0
    ) -> Target | None:
        """Return the method `name` of a class or its bases, also in other modules; `first` is 1 for `super()`."""
        for home, owner in self.lineage(index, definition)[first:]:
            for statement in owner.body:
                if isinstance(statement, FUNCTIONS) and statement.name == name:
                    return Target(home, statement, owner)
        return None

    def lineage(self, index: Index, definition: ast.ClassDef) -> list[tuple[Index, ast.ClassDef]]:
        """Return a class and those of the program that it derives from, the nearest first; found once."""
        if definition not in self._lineages:
            found = reach([(index, definition)], lambda place: self._bases(*place))
            self._lineages[definition] = list(found)
        lineage = self._lineages[definition]
        self._is_home_met = self._is_home_met or any(home is self.home for home, _ in lineage)
        return lineage

    def attributes(
        self, index: Index, definition: ast.ClassDef, name: str
    ) -> Iterator[tuple[Index, Binding]]:
        """What gives an instance of a class, or of what it derives from, its attribute `name`."""
        for of, owner in self.lineage(index, definition):
            if owner in of.inference.scopes:
                bound = of.inference.class_attributes(owner).get(name, ())
                yield from ((of, b) for b, _ in bound if b.how == "assign")

    def _bases(
        self, index: Index, definition: ast.ClassDef
    ) -> Iterator[tuple[Index, ast.ClassDef]]:
        yield from filter(None, (self._class(index, base) for base in definition.bases))

    def _class(self, index: Index, node: ast.expr) -> tuple[Index, ast.ClassDef] | None:
        dotted = index.dotted(node)
        if dotted is not None:
            found = self.defined(index, dotted)
            if found is not None and isinstance(found[1], ast.ClassDef):
                return found[0], found[1]
            return None
        value = index.value(node)
        if value.has(CLASS) and isinstance(value.definition, ast.ClassDef):
            return index, value.definition
        return None

    def class_of(self, index: Index, node: ast.expr) -> tuple[Index, ast.ClassDef] | None:
        """Return the class of the program that `node` is an instance of."""
        definition = index.value(node).definition
        if isinstance(definition, ast.ClassDef):
            return index, definition
        made = (each for each in (node, *sources(index, node)) if isinstance(each, ast.Call))
        classes = (self._class(index, call.func) for call in made)
        return next((found for found in classes if found is not None), None)

    def object_class(self, index: Index, node: ast.expr) -> tuple[Index, ast.ClassDef] | None:
        """Return the class that `node` is an instance of, also of `self`."""
        around = index.class_around(node) if name_of(node) == "self" else None
        return self.class_of(index, node) or ((index, around) if around is not None else None)

    def target(self, index: Index, function: ast.AST) -> Target | None:
        """Return `function` of the module `index` with its class; None if the node is no function."""
        if not isinstance(function, FUNCTIONS):
            return None
        around = index.scope(function).node
        return Target(index, function, around if isinstance(around, ast.ClassDef) else None)


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
    return target.home.scope(target.function.body[0])


def derives(script: ParsedFile, definition: ast.ClassDef, is_it: Callable[[str], bool]) -> bool:
    """True if a base of `definition`, or of one of its bases, has a dotted name for which `is_it` holds."""
    return any(map(is_it, script.cached(names_of_bases, definition)))


def names_of_bases(script: ParsedFile, definition: ast.ClassDef) -> set[str]:
    """Return the dotted names of the bases of `definition`, and of the bases of these."""
    callees = callees_of(script)
    lineage = callees.lineage(callees.home, definition)
    names = (index.dotted(base) for index, owner in lineage for base in owner.bases)
    return set(filter(None, names))
