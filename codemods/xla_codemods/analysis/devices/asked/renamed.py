"""Strings that say "xla" once a script is rewritten, whatever they are called: `kind = "cuda" if use_cuda else "cpu"`."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from ...flow import reaching
from ...inference.library_types import RUNTIME
from ...scopes import Scope, resolve
from ...syntax import returned
from ..literal_context import NAME
from ..literals import DeviceLiterals

if TYPE_CHECKING:
    from ...bindings import Binding
    from ...parsed_file import ParsedFile

_DEEPEST = 6  # names and calls from a use to the string


def is_renamed(script: ParsedFile, node: ast.AST) -> bool:
    """Return True if `node` may be such a string, or a choice of one, so comparisons with "cuda" must change."""
    return script.cached(_Renamed).is_one(node, script.index.scope(node), _DEEPEST)


def is_xla_or_renamed(script: ParsedFile, node: ast.AST) -> bool:
    """The same, before the script is rewritten and after: `kind = xla.device_type()`."""
    return script.cached(_RenamedOrXla).is_one(node, script.index.scope(node), _DEEPEST)


class _Renamed:
    rewritten = False  # what the runtime calls the device counts, too

    def __init__(self, script: ParsedFile) -> None:
        self.script = script
        self.literals = {
            placed.spec.node
            for placed in script.cached(DeviceLiterals).all
            if placed.place == NAME and not placed.of_devices
        }
        self._kept: dict[str, list[tuple[ast.Assign, ast.expr, Scope]]] | None = None

    def is_one(self, node: ast.AST | None, scope: Scope, depth: int) -> bool:
        if node is None or depth == 0:
            return False
        if node in self.literals:
            return True
        match node:
            case ast.IfExp(body=first, orelse=second):
                return any(self.is_one(part, scope, depth) for part in (first, second))
            case ast.BoolOp(values=parts):
                return any(self.is_one(part, scope, depth) for part in parts)
            case ast.NamedExpr(value=inner):
                return self.is_one(inner, scope, depth)
            case ast.Name(id=name):
                found = scope.find(name)
                if found is None:
                    return False
                home, bindings = found
                reached = reaching(bindings, node, home, self.script.parents)
                return any(self._binds_one(node, b, home, depth) for b in reached)
            case ast.Attribute() | ast.Subscript():
                return self._is_kept(node, scope, depth) or self._is_of_a_module(node, scope)
            case ast.Call(func=func):
                if self.rewritten and _is_the_runtimes(func, scope):
                    return True
                function = self.script.value(func, scope).definition
                if isinstance(function, ast.FunctionDef):
                    inside = self.script.inference.inner(function, scope)
                    return any(self.is_one(r, inside, depth - 1) for r in returned(function))
                return self._is_of_a_module(func, scope)
        return False

    def _binds_one(self, use: ast.Name, binding: Binding, home: Scope, depth: int) -> bool:
        if binding.how == "import":
            return self._is_of_a_module(use, home)
        return (
            binding.how == "assign"
            and not binding.path
            and self.is_one(binding.value, home, depth - 1)
        )

    def _is_kept(self, node: ast.Attribute | ast.Subscript, scope: Scope, depth: int) -> bool:
        """`args.where`, `config["where"]`, by what the file puts there."""
        if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name):
            found = scope.find(node.value.id)
            for binding in found[1] if found is not None else ():
                match binding.value, node.slice:
                    case ast.Dict(keys=keys, values=values), ast.Constant(value=wanted):
                        for key, value in zip(keys, values):
                            if getattr(key, "value", None) == wanted:
                                return self.is_one(value, found[0], depth - 1)  # type: ignore[index]
        if self._kept is None:
            self._kept = {}
            for statement, inside in self.script.index.of(ast.Assign):
                for target in statement.targets:
                    if isinstance(target, (ast.Attribute, ast.Subscript)):
                        entry = (statement, statement.value, inside)
                        self._kept.setdefault(ast.unparse(target), []).append(entry)
        text = ast.unparse(node)
        return any(
            self.is_one(value, inside, depth - 1)
            for statement, value, inside in self._kept.get(text, ())
            if not text.startswith("self.") or _class_of(scope) is _class_of(inside)
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


def _class_of(scope: Scope) -> ast.AST | None:
    inside: Scope | None = scope
    while inside is not None and not isinstance(inside.node, ast.ClassDef):
        inside = inside.parent
    return inside.node if inside is not None else None
