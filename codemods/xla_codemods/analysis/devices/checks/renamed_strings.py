"""Strings that say "xla" once a script is rewritten, whatever they are called: `kind = "cuda" if use_cuda else "cpu"`."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from ....flow.closure import reach
from ....flow.edges import sources
from ...inference.library_types import RUNTIME
from ...scopes import Scope, resolve
from ...syntax import returned
from ..literal_context import NAME
from ..literals import DeviceLiterals

if TYPE_CHECKING:
    from ...parsed_file import ParsedFile

_DEEPEST = 6  # names and calls from a use to the string


def is_renamed(script: ParsedFile, node: ast.expr) -> bool:
    """Return True if `node` may be such a string, or a choice of one, so comparisons with "cuda" must change."""
    return script.cached(_Renamed).is_one(node)


def is_xla_or_renamed(script: ParsedFile, node: ast.expr) -> bool:
    """The same, before the script is rewritten and after: `kind = xla.device_type()`."""
    return script.cached(_RenamedOrXla).is_one(node)


class _Renamed:
    rewritten = False  # what the runtime calls the device counts, too

    def __init__(self, script: ParsedFile) -> None:
        self.script = script
        self.literals = {
            placed.spec.node
            for placed in script.cached(DeviceLiterals).all
            if placed.place == NAME and not placed.of_devices
        }

    def is_one(self, node: ast.expr) -> bool:
        return any(map(self._ends, reach([node], lambda value: sources(self.script, value))))

    def _ends(self, node: ast.expr) -> bool:
        """Return True if `node` is such a string itself, or comes from another module that has one."""
        scope = self.script.index.scope(node)
        if isinstance(node, ast.Call):
            if self.rewritten and _is_the_runtimes(node.func, scope):
                return True
            return self._is_of_a_module(node.func, scope)
        return node in self.literals or (
            isinstance(node, (ast.Name, ast.Attribute)) and self._is_of_a_module(node, scope)
        )

    def _is_of_a_module(self, node: ast.expr, scope: Scope) -> bool:
        """A name, or the result of a function, of another module, before it is rewritten or after."""
        project = self.script.project
        dotted = resolve(node, scope) if project is not None else None
        found = project.bound(dotted) if project is not None and dotted else None
        if found is None:
            return False
        binding, path = found
        inside = project.modules.scope(path)  # type: ignore[union-attr]
        assert inside is not None
        if isinstance(binding.node, ast.FunctionDef):
            return any(_chooses(value, inside) for value in returned(binding.node))
        return binding.how == "assign" and not binding.path and _chooses(binding.value, inside)


class _RenamedOrXla(_Renamed):
    rewritten = True


def _chooses(node: ast.expr | None, scope: Scope) -> bool:
    match node:
        case ast.IfExp(body=ast.Constant(value=first), orelse=ast.Constant(value=second)):
            return {"cuda", "cpu"} == {first, second}
        case ast.IfExp(body=first, orelse=second):
            return _chooses(first, scope) or _chooses(second, scope)
        case ast.Call(func=func):
            return _is_the_runtimes(func, scope)
    return False


def _is_the_runtimes(func: ast.expr, scope: Scope) -> bool:
    return resolve(func, scope) == f"{RUNTIME}.device_type"
