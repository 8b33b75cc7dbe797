"""Tests whether a package is installed or imported: `"apex" in sys.modules`, `HAVE_APEX`, `amp is None`."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import NamedTuple

from ....flow.conditions import settled, truth
from ....patterns import Pattern
from ...index import Index, build
from ...nodes import walk
from ...parsed_file import ParsedFile
from ...scopes import Binding, Scope, resolve
from ...syntax import caught, is_elif, is_pure, name_of, packages

_QUESTION = Pattern(r"^(?:is|has)_\w+_(?:available|installed)$")
# Functions that are asked for a package by its name: `_is_package_available("apex")`.
_LOOKUP = Pattern(
    r"^find_spec$|^_?(?:is|has|have)_(?:\w+_)?(?:available|installed|package|module)$"
    r"|^_?(?:(?:is|package|module)_?)?(?:installed|available|exists)$|^RequirementCache$",
    re.IGNORECASE,
)
_FLAG = Pattern(r"^_?(?:has|is|have)_|_(?:available|installed)$", re.IGNORECASE)
_EXITS = frozenset({"exit", "quit", "_exit", "error"})
_LOGS = frozenset({"print", "warn", "warning", "info", "error", "critical", "log"})
_MODULES = "sys.modules"
_HANDLED = frozenset({"ImportError", "ModuleNotFoundError", "Exception", "BaseException"})


class Presence(NamedTuple):
    """A test for a package. `answer`: its result if the package is installed."""

    node: ast.expr
    answer: bool = True
    is_of_modules: bool = False


def tests(index: Index, package: str) -> Iterator[Presence]:
    """Yield the tests for `package` in one module."""
    for node, scope in index.of(ast.Compare):
        match node:
            case ast.Compare(
                left=ast.Constant(value=str(module)),
                ops=[ast.In() | ast.NotIn() as op],
                comparators=[table],
            ) if module.partition(".")[0] == package and _is_modules(table, scope):
                yield Presence(node, isinstance(op, ast.In), is_of_modules=True)
            case ast.Compare(left=left, comparators=[ast.Constant(value=None)]):
                if (resolve(left, scope) or "").partition(".")[0] == package:
                    yield Presence(left)
    for call, scope in index.of(ast.Call):
        if _asks_for_package(call, package):
            yield Presence(call)
        elif _is_lookup(call, scope, package):
            yield Presence(call, is_of_modules=True)
    for name, scope in index.of(ast.Name):
        if isinstance(name.ctx, ast.Load) and _is_asked_by(name, scope, index, package):
            yield Presence(name)


def complaints(index: Index, package: str) -> Iterator[tuple[ast.If | ast.Assert, Presence]]:
    """Yield the statements that only raise, or end the program, if `package` is missing: `if not HAS_APEX: raise ...`."""
    found = list(tests(index, package))
    answers = {test.node: test.answer for test in found}
    for test in found:
        match statement := index.statement(test.node):
            case ast.Assert(test=condition) if _result(condition, answers) is True:
                yield statement, test
            case ast.If(test=condition, body=body, orelse=[]) if (
                test.node in walk(condition) and _result(condition, answers) is False
            ):
                if _only_refuses(body) and not is_elif(statement, index.parents):
                    yield statement, test


def decides(script: ParsedFile, test: Presence, package: str) -> bool:
    """Return True if a test chooses code that does not use `package`, so a missing package changes what runs.

    A flag that the import in this file sets does not count: it is True once nothing needs the import.
    """
    if isinstance(test.node, ast.Name) and not _is_imported(script, test.node):
        found = script.index.scope(test.node).find(test.node.id)
        if _is_flag(script.index, found, package):
            return False
    for child, ancestor in script.upward(test.node):
        if isinstance(ancestor, (ast.If, ast.IfExp)) and child is ancestor.test:
            parts = _branches(ancestor)
            only_prints = all(isinstance(part, ast.stmt) and _logs(part) for part in parts)
            return not only_prints and not any(_uses(script, part, package) for part in parts)
        is_bool = isinstance(ancestor, ast.Call) and name_of(ancestor.func) == "bool"
        if not is_bool and not isinstance(
            ancestor, (ast.BoolOp, ast.UnaryOp, ast.Compare, ast.NamedExpr)
        ):
            return False
    return False


def _is_imported(script: ParsedFile, name: ast.Name) -> bool:
    return all(binding.how == "import" for binding in script.bindings(name))


def _branches(choice: ast.If | ast.IfExp) -> list[ast.AST]:
    if isinstance(choice, ast.IfExp):
        return [choice.body, choice.orelse]
    return [*choice.body, *choice.orelse]


def _uses(script: ParsedFile, part: ast.AST, package: str) -> bool:
    """Return True if `part` imports or uses `package`."""
    if package in packages(part):
        return True
    names = (node for node in walk(part) if isinstance(node, (ast.Name, ast.Attribute)))
    return any((script.dotted(name) or "").partition(".")[0] == package for name in names)


def reads_modules(index: Index, package: str) -> bool:
    """Return True if the module looks for `package` in `sys.modules`, and does more than to refuse if it is missing."""
    refused = {test.node for _, test in complaints(index, package)}
    return any(test.is_of_modules and test.node not in refused for test in tests(index, package))


def _is_modules(table: ast.expr, scope: Scope) -> bool:
    match table:
        case ast.Call(func=ast.Attribute(value=inner, attr="keys")):
            table = inner
    return resolve(table, scope) == _MODULES


def _is_lookup(call: ast.Call, scope: Scope, package: str) -> bool:
    """Return True for `sys.modules.get("apex")`."""
    match call:
        case ast.Call(
            func=ast.Attribute(value=table, attr="get"), args=[ast.Constant(value=str(name)), *_]
        ):
            return name.partition(".")[0] == package and _is_modules(table, scope)
    return False


def _is_asked_by(name: ast.Name, scope: Scope, index: Index, package: str) -> bool:
    """Return True if a name is a flag for `package`, here or in another module: `HAVE_APEX`, `has_apex`."""
    found = scope.find(name.id)
    if _is_flag(index, found, package):
        return True
    bindings = found[1] if found is not None else []
    if bindings and all(_is_test(binding.value, package) for binding in bindings):
        return True
    if package not in name.id.lower() or not _FLAG.search(name.id):
        return False
    parent = index.parents.get(name)
    is_called = isinstance(parent, ast.Call) and parent.func is name
    return not is_called and all(binding.how == "import" for binding in bindings)


def _is_test(value: ast.expr | None, package: str) -> bool:
    """Return True for `bool(find_spec("apex"))` and `find_spec("apex") is not None`."""

    def known(part: ast.expr) -> bool | None:
        return True if isinstance(part, ast.Call) and _asks_for_package(part, package) else None

    return value is not None and truth(value, known) is True


def _asks_for_package(call: ast.Call, package: str) -> bool:
    """Return True for `is_apex_available()` and `importlib.util.find_spec("apex")`."""
    last = name_of(call.func)
    match call.args:
        case []:
            return package in last and _QUESTION.search(last) is not None
        case [ast.Constant(value=str(value))]:
            return _LOOKUP.search(last) is not None and re.split(r"\W", value)[0] == package
    return False


def _is_flag(index: Index, found: tuple[Scope, list[Binding]] | None, package: str) -> bool:
    """Return True if the name is True after an import of `package` that may fail, and False or None otherwise."""
    if found is None:
        return False
    given: list[object] = []
    for binding in found[1]:
        if not isinstance(binding.value, ast.Constant) or binding.path:
            return False
        if binding.value.value is True and not _follows_import(index, binding.node, package):
            return False
        given.append(binding.value.value)
    return given.count(True) == 1 and all(value in {True, False, None} for value in given)


def _follows_import(index: Index, node: ast.AST, package: str) -> bool:
    statement = index.statement(node)
    attempt = index.parent(statement)
    return (
        isinstance(attempt, ast.Try)
        and statement in (*attempt.body, *attempt.orelse)
        and any(_catches(handler) for handler in attempt.handlers)
        and any(package in packages(part) for part in attempt.body)
    )


def _catches(handler: ast.ExceptHandler) -> bool:
    """Return True if `handler` catches a failed import and goes on."""
    goes_on = not any(isinstance(part, ast.Raise) for part in handler.body)
    return goes_on and not _HANDLED.isdisjoint(caught(handler))


def _only_refuses(body: list[ast.stmt]) -> bool:
    """Return True if a block prints or logs, and then raises or ends the program."""
    match body:
        case [*before, ast.Raise() | ast.Expr(value=ast.Call())] if all(map(_logs, before)):
            return isinstance(body[-1], ast.Raise) or _calls(body[-1], _EXITS)
    return False


def _logs(statement: ast.stmt) -> bool:
    return _calls(statement, _LOGS)


def _calls(statement: ast.stmt, names: frozenset[str]) -> bool:
    match statement:
        case ast.Expr(value=ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name))):
            return name in names
    return False


def _result(condition: ast.expr, answers: dict[ast.expr, bool]) -> bool | None:
    """Return the result of `condition` if the package is installed, None if it depends on more."""
    if condition not in answers and not is_pure(condition, answers.__contains__):
        return None
    return settled(condition, answers.get)


_OF_TORCH = frozenset({"torch", "torch_xla", "torchvision"})


class SysModules:
    """Packages that the edited file, or another module of its programs, looks for in `sys.modules`."""

    def __init__(self, tree: ast.Module, script: ParsedFile) -> None:
        self._tree, self._script = tree, script
        self._known: dict[str, bool] = {}

    def looks_for(self, node: ast.Import | ast.ImportFrom, alias: ast.alias) -> bool:
        """Return True if the import of `alias` must stay, because code tests that its package is imported."""
        home = node.module or "" if isinstance(node, ast.ImportFrom) else alias.name
        package = home.partition(".")[0]
        is_relative = isinstance(node, ast.ImportFrom) and node.level > 0
        if is_relative or package in _OF_TORCH:
            return False
        if package not in self._known:
            self._known[package] = any(reads_modules(index, package) for index in self._indexes())
        return self._known[package]

    def _indexes(self) -> Iterator[Index]:
        """Yield the modules that speak of `sys.modules`."""
        if "modules" in self._script.source.text:
            yield build(self._tree, self._script.source.text)
        project = self._script.project
        modules = project.modules
        connected = modules.graph.connected(project.path) - {project.path}
        having = connected & modules.having(("sys.modules",))
        yield from filter(None, map(modules.whole, sorted(having)))
