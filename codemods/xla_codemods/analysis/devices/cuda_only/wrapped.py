"""Functions that code may run without naming them: what a decorator wraps, and the methods of derived classes."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable, Iterator

from ....flow.calls import class_of_self, heirs
from ....listened import LISTENED
from ...nodes import FUNCTIONS, walk
from ...parsed_file import ParsedFile
from ...syntax import parameters, root_of
from .extensions import uses_of

_Function = tuple[ParsedFile, ast.FunctionDef]
_FOR_EVERY_DEVICE = sys.stdlib_module_names | {"torch", "torchvision", "torchaudio", "einops"}
_CALLED = frozenset({"__call__", "__init__"})


def wrapped_or_derived(script: ParsedFile, nodes: Iterable[ast.AST]) -> Iterator[_Function]:
    """Yield the functions that calls of parameters and of `self.method` in `nodes` may run."""
    for node in nodes:
        match node:
            case ast.Call(func=ast.Name() as func):
                yield from _given_to_decorators(script, func)
            case ast.Call(func=ast.Attribute(attr=method) as func):
                if (owner := class_of_self(script, func)) is not None:
                    for heir in heirs(script, owner):
                        defined = script.inference.method(heir, method)
                        if defined is not None and isinstance(defined[0], ast.FunctionDef):
                            yield script, defined[0]


def _given_to_decorators(script: ParsedFile, func: ast.Name) -> Iterator[_Function]:
    """Yield the functions that are decorated with the function whose parameter `func` is, or passed to it."""
    around = [each for each in script.ancestors(func) if isinstance(each, FUNCTIONS)]
    owners = [each for each in around if any(p.arg == func.id for p in parameters(each))]
    for owner in owners[:1]:
        for maker in (owner, *around[around.index(owner) + 1 :], _class(script, owner)):
            if isinstance(maker, (ast.FunctionDef, ast.ClassDef)):
                yield from _arguments(script, maker)


def _class(script: ParsedFile, method: ast.AST) -> ast.AST | None:
    is_method = getattr(method, "name", "") in _CALLED
    return script.parent(method) if is_method else None


def _arguments(
    script: ParsedFile, decorator: ast.FunctionDef | ast.ClassDef
) -> Iterator[_Function]:
    for file, use in uses_of(script, decorator):
        around = file.parent(use)
        if isinstance(around, ast.FunctionDef) and use in around.decorator_list:
            yield file, around
        elif isinstance(use, ast.Call):
            for given in use.args:
                found = file.value(given).definition
                if isinstance(found, ast.FunctionDef):
                    yield file, found


def hands_to_a_package(script: ParsedFile, test: ast.expr, body: Iterable[ast.AST]) -> bool:
    """Return True if a function that `body` runs passes the tensor, whose device is tested, to another package.

    The function imports the package itself: `my_ext.silu(x)`. Nobody knows on which devices the package computes.
    """
    tested = {n.id for n in walk(test) if isinstance(n, ast.Name) and script.dotted(n) is None}
    calls = [n for part in body for n in walk(part) if isinstance(n, ast.Call)]
    calls = [call for call in calls if not tested.isdisjoint(_names(call.args))]
    named = (script.value(call.func).definition for call in calls)
    own = ((script, each) for each in named if isinstance(each, ast.FunctionDef))
    return any(_hands_on(*each) for each in (*own, *wrapped_or_derived(script, calls)))


def _hands_on(script: ParsedFile, function: ast.FunctionDef) -> bool:
    imports = [n for n in walk(function) if isinstance(n, (ast.Import, ast.ImportFrom))]
    foreign = [each for each in imports if _is_foreign(script, each)]
    own = {each.arg for each in parameters(function)}
    return bool(foreign) and any(
        any(binding.node in foreign for binding in script.bindings(root_of(call.func)))
        and not own.isdisjoint(_names(call.args))
        for call in walk(function)
        if isinstance(call, ast.Call)
    )


def _names(arguments: Iterable[ast.expr]) -> set[str]:
    return {each.id for each in arguments if isinstance(each, ast.Name)}


def _is_foreign(script: ParsedFile, node: ast.Import | ast.ImportFrom) -> bool:
    if isinstance(node, ast.ImportFrom) and node.level:
        return False
    names = (
        [node.module or ""] if isinstance(node, ast.ImportFrom) else [a.name for a in node.names]
    )
    modules, path = script.project.modules, script.project.path
    known = _FOR_EVERY_DEVICE | {listened.partition(".")[0] for listened in LISTENED}
    return all(
        name.partition(".")[0] not in known and modules.locate(name, path) is None for name in names
    )
