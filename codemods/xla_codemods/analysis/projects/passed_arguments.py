"""Values passed to parameters, in a function's module and in those that import it, and stored in options and dicts."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

from ...flow.containers import held
from ...flow.edges import sources
from ..devices.specs import INDEX_NAME, last_name
from ..index import Index
from ..once import once
from ..parsed_file import ParsedFile
from ..syntax import (
    CALLED_AS_INSTANCE,
    keyword,
    name_of,
    names_given,
    texts_of,
)
from .callees import PREPARING, Callees, Handed, Target, callees_of, filled


class PassedArgument(NamedTuple):
    """What is passed for a parameter; `sure`: by a plain call of what is surely this function."""

    node: ast.expr
    home: Index
    sure: bool


@once
def passed_arguments(script: ParsedFile) -> PassedArguments:
    """What the calls of a script's program pass, as the script sees them; found once for all who ask."""
    return PassedArguments(callees_of(script))


class PassedArguments:
    """The calls of functions, each looked for once."""

    def __init__(self, callees: Callees) -> None:
        self.callees = callees
        self._known: dict[ast.AST, list[tuple[str, PassedArgument]]] = {}

    def of(self, target: Target, name: str) -> Iterator[PassedArgument]:
        """What the calls of `target`, here and in the modules that import it, pass for `name`."""
        if target.function not in self._known:
            self._known[target.function] = []  # the value during the search
            self._known[target.function] = list(self._found(target))
        for parameter, argument in self._known[target.function]:
            if parameter == name:
                yield argument

    def of_parameter(self, index: Index, name: ast.Name) -> Iterator[PassedArgument]:
        """Yield the arguments for the parameter `name` of the function that it stands in."""
        found = index.scope(name).find(name.id)
        target = self.callees.target(index, found[0].node) if found is not None else None
        yield from self.of(target, name.id) if target is not None else ()

    def _found(self, target: Target) -> Iterator[tuple[str, PassedArgument]]:
        names = [arg.arg for arg in (*target.function.args.args, *target.function.args.kwonlyargs)]
        for index, call in self.calls(target):
            handed = self.callees.handed(index, call)
            known = handed is not None and handed.target is not None
            if handed is None or handed.target is None:
                if target.owner is None or index.dotted(call.func) is not None:
                    continue
                if not isinstance(call.func, ast.Attribute):
                    continue
                handed = Handed(target, call.args, call.keywords)  # of an unknown object
            elif handed.target.function is not target.function:
                continue
            for parameter, argument in filled(handed, target):
                if known or _says_so(argument, handed):
                    is_sure = known and not handed.later
                    yield parameter, PassedArgument(argument, index, is_sure)
            for given in handed.keywords:
                if given.arg is None:
                    for name in names:
                        for value in held(index, given.value, name):
                            yield name, PassedArgument(value, index, False)

    def calls(self, target: Target) -> Iterator[tuple[Index, ast.Call]]:
        """Yield the calls of the program that may run `target`, by its name, each with the module that it stands in."""
        function, owner = target.function.name, target.owner
        name = owner.name if owner is not None and function == "__init__" else function
        for index in self._modules_around(target):
            names = {name}
            if index is not target.home:
                names |= self.callees.project.modules.local_names(name, index.path)
            if function == "__init__":
                names |= {"__init__", *_heirs(name, index), *_heirs(name, target.home)}
            if owner is not None and function in CALLED_AS_INSTANCE:
                made = [c for c, _ in index.calls_of(owner.name)]
                names = {n for c in made for n in names_given(c, index.parent)}
            for each in (*sorted(names), *PREPARING):
                yield from ((index, call) for call, _ in index.calls_of(each))

    def _modules_around(self, target: Target) -> Iterator[Index]:
        yield target.home
        modules = self.callees.project.modules
        function, owner = target.function.name, target.owner
        if owner is None:
            names = {function}
        elif function == "__init__" or function in CALLED_AS_INSTANCE:
            # By the class's name, or as an heir's base: of those two words each module is full.
            names = {owner.name, *_heirs(owner.name, target.home)}
        else:
            names = {function}
        having = frozenset().union(*map(modules.with_word, names))
        above = modules.graph.loading(target.home.path)
        others = sorted((having & above) - {target.home.path})
        yield from filter(None, map(self.callees.module, others))

    def preparing(self, target: Target) -> Iterator[Handed]:
        """Yield what calls in the module of `target` pass to functions that run in another process, or later."""
        for word in PREPARING:
            for call, _ in target.home.calls_of(word):
                handed = self.callees.handed(target.home, call)
                yield from [handed] if handed is not None else []


def _says_so(argument: ast.expr, handed: Handed) -> bool:
    """True if `argument` is a device's number by its name, or given by that of the parameter."""
    by_keyword = any(k.value is argument for k in handed.keywords)
    last = last_name(argument)
    return by_keyword or (last is not None and INDEX_NAME.match(last) is not None)


def _heirs(name: str, index: Index) -> set[str]:
    """Classes that derive from the one called `name`."""
    return {
        node.name
        for node, _ in index.of(ast.ClassDef)
        if any(ast.unparse(base).rpartition(".")[2] == name for base in node.bases)
    }


def assigned_to(node: ast.Attribute | ast.Subscript, index: Index) -> Iterator[ast.expr]:
    """Yield what the module of `index` gives the attribute or entry, and the defaults of options of that name."""
    yield from sources(index, node)
    if isinstance(node, ast.Attribute):
        yield from _defaults(node.attr, index)


def _defaults(name: str, index: Index) -> Iterator[ast.expr]:
    """Yield the defaults of the option `name`, 0 for a number: `add_argument("--device", type=int)`."""
    for call, _ in index.calls_of("add_argument"):
        destination, default = option(call)
        if destination == name and name_of(keyword(call, "type")) == "int":
            yield ast.copy_location(ast.Constant(0), call)
        elif destination == name and default is not None:
            yield default


def option(call: ast.Call) -> tuple[str, ast.expr | None]:
    """The destination of `parser.add_argument("--optim", default="x")` and its default; of a switch, what it sets."""
    texts = texts_of(call.args)
    long = [text for text in texts if text.startswith("--")] or texts or [""]
    named = getattr(keyword(call, "dest"), "value", long[0].lstrip("-").replace("-", "_"))
    match keyword(call, "action"):
        case ast.Constant(value="store_true") as action:
            return str(named), ast.copy_location(ast.Constant(True), action)
    return str(named), keyword(call, "default")


def is_default_of_an_option(script: ParsedFile, node: ast.expr) -> bool:
    """True if `node` is, or may be, the default of an option that is a text: `add_argument("--device", default=node)`."""
    around = script.parent(node)
    while isinstance(around, (ast.IfExp, ast.BoolOp)):
        around = script.parent(around)
    call = script.parent(around) if isinstance(around, ast.keyword) else None
    if not isinstance(call, ast.Call) or getattr(around, "arg", "") != "default":
        return False
    name = name_of(call.func)
    kind = keyword(call, "type")
    return name in {"add_argument", "option"} and (
        kind is None or (isinstance(kind, ast.Name) and kind.id == "str")
    )


def default_of(call: ast.Call) -> ast.expr | None:
    """What `getattr(args, "gpu", 0)` and `config.get("device", 0)` fall back to."""
    match call:
        case ast.Call(func=ast.Name(id="getattr"), args=[_, _, default]):
            return default
        case ast.Call(func=ast.Attribute(attr="get" | "pop"), args=[ast.Constant(), default]):
            return default
    return None
