"""The arguments that calls pass to a function's parameters, in its module and in modules that import it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from ..scopes import Scope, resolve
from ..syntax import CALLED_AS_INSTANCE, names_given
from .callees import PREPARING, Callees, Handed, Target, View, filled
from .places import entries
from .specs import INDEX_NAME, last_name

if TYPE_CHECKING:
    from ..script import Script


class PassedArgument(NamedTuple):
    """What is passed for a parameter; `sure`: by a plain call of what is surely this function."""

    node: ast.expr
    scope: Scope
    view: View
    sure: bool


def passed_arguments(script: Script) -> PassedArguments:
    """What the calls of a script's program pass, as the script sees them; found once for all who ask."""
    return script.cached(_seen_from)


def _seen_from(script: Script) -> PassedArguments:
    project = script.project
    modules = project.modules if project is not None else None
    home = View(script.index, project.path if project is not None else "", modules)
    return PassedArguments(Callees(home))


class PassedArguments:
    """The calls of functions, each looked for once."""

    def __init__(self, callees: Callees) -> None:
        self.callees = callees
        self._handing: dict[str, list[tuple[ast.Call, Scope]]] = {}
        self._known: dict[ast.AST, list[tuple[str, PassedArgument]]] = {}

    def of(self, target: Target, name: str) -> Iterator[PassedArgument]:
        """What the calls of `target`, here and in the modules that import it, pass for `name`."""
        if target.function not in self._known:
            self._known[target.function] = []  # the value during the search
            self._known[target.function] = list(self._found(target))
        for parameter, argument in self._known[target.function]:
            if parameter == name:
                yield argument

    def _found(self, target: Target) -> Iterator[tuple[str, PassedArgument]]:
        names = [arg.arg for arg in (*target.function.args.args, *target.function.args.kwonlyargs)]
        for view, call, scope in self._calls(target):
            handed = self.callees.handed(view, call, scope)
            known = handed is not None and handed.target is not None
            if handed is None or handed.target is None:
                if target.owner is None or resolve(call.func, scope) is not None:
                    continue
                if not isinstance(call.func, ast.Attribute):
                    continue
                handed = Handed(target, call.args, call.keywords)  # of an unknown object
            elif handed.target.function is not target.function:
                continue
            for parameter, argument in filled(handed, target):
                if known or _says_so(argument, handed):
                    yield (
                        parameter,
                        PassedArgument(argument, scope, view, known and not handed.later),
                    )
            for given in handed.keywords:
                if given.arg is None:
                    for name in names:
                        node = ast.Subscript(given.value, ast.Constant(name), ast.Load())
                        for value, home in entries(node, scope, view):
                            yield name, PassedArgument(value, home, view, False)

    def _calls(self, target: Target) -> Iterator[tuple[View, ast.Call, Scope]]:
        function, owner = target.function.name, target.owner
        name = owner.name if owner is not None and function == "__init__" else function
        for view in self._views_around(target):
            names = {name, *self._local_names(name, view, target)}
            if function == "__init__":
                names |= {"__init__", *_heirs(name, view), *_heirs(name, target.view)}
            if owner is not None and function in CALLED_AS_INSTANCE:
                made = [c for c, _ in view.indexed.calls_of(owner.name)]
                names = {n for c in made for n in names_given(c, view.indexed.parents)}
            for each in sorted(names):
                yield from ((view, call, scope) for call, scope in view.indexed.calls_of(each))
            yield from self.preparing(name, view)

    def _views_around(self, target: Target) -> Iterator[View]:
        yield target.view
        modules = target.view.modules
        if modules is None:
            return
        function, owner = target.function.name, target.owner
        if owner is None:
            names = {function}
        elif function == "__init__" or function in CALLED_AS_INSTANCE:
            # By the class's name, or as an heir's base: of those two words each module is full.
            names = {owner.name, *_heirs(owner.name, target.view)}
        else:
            names = {function}
        having = frozenset().union(*map(modules.with_word, names))
        above = modules.graph.loading(target.view.path)
        for path in sorted((having & above) - {target.view.path}):
            view = self.callees.view(path)
            if view is not None:
                yield view

    def _local_names(self, name: str, view: View, target: Target) -> Iterator[str]:
        if view is not target.view and view.modules is not None:
            for found in view.modules.imports(view.path):
                if found.name == name:
                    yield found.local

    def preparing(self, name: str, view: View) -> Iterator[tuple[View, ast.Call, Scope]]:
        """Calls that prepare one of a function called `name`."""
        key = view.path
        if key not in self._handing:
            self._handing[key] = [c for word in PREPARING for c in view.indexed.calls_of(word)]
        for call, scope in self._handing[key]:
            yield view, call, scope


def _says_so(argument: ast.expr, handed: Handed) -> bool:
    """True if `argument` is a device's number by its name, or given by that of the parameter."""
    by_keyword = any(k.value is argument for k in handed.keywords)
    last = last_name(argument)
    return by_keyword or (last is not None and INDEX_NAME.match(last) is not None)


def _heirs(name: str, view: View) -> set[str]:
    """Classes that derive from the one called `name`."""
    return {
        node.name
        for node, _ in view.indexed.of(ast.ClassDef)
        if any(ast.unparse(base).rpartition(".")[2] == name for base in node.bases)
    }
