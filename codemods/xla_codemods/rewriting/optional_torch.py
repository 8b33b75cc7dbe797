"""Where the runtime's import goes in a file that loads without torch: beside torch's own import."""

from __future__ import annotations

import ast
import math
import sys
from collections.abc import Callable, Iterator
from typing import NamedTuple

from ..analysis.host_programs import WITHOUT_TORCH
from ..analysis.inference.library_types import RUNTIME, VENDORED
from ..analysis.nodes import FUNCTIONS, walk
from ..analysis.parsed_file import RUNTIME_IMPORT
from ..analysis.syntax import imported_modules
from ..flow.closure import reach
from ..source import Source

_IMPORTS = (ast.Import, ast.ImportFrom)
_ENDS = frozenset({"exit", "_exit", "quit"})

Function = ast.FunctionDef | ast.AsyncFunctionDef
Test = Callable[[ast.stmt], bool]


class Insertion(NamedTuple):
    """The import follows the line `line` (from 1), indented as `beside`, after an `else:` if `opens` is the `try` of one."""

    line: int
    beside: ast.stmt
    opens: ast.Try | None = None


def is_imported(tree: ast.Module, name: str) -> bool:
    """Return True if the file imports the runtime as `name` before it uses it: as it loads, or in each function that uses it."""
    functions = [node for node in _functions(tree.body) if _imports_runtime(node, name)]
    inside = {inner for function in functions for inner in walk(function)}
    imports = [n for n in walk(tree) if isinstance(n, _IMPORTS) and _imports_runtime(n, name)]
    at_once = [node.lineno for node in imports if node not in inside]
    if at_once and min(at_once) <= _first_needed(tree, name):
        return True
    return bool(imports) and inside.issuperset(_uses(tree.body, name))


def late_imports(tree: ast.Module, name: str) -> list[ast.stmt]:
    """Return the imports of the runtime in functions that use it before: there, `name` has no value yet."""
    found = dict[ast.stmt, None]()
    for function in (n for n in walk(tree) if isinstance(n, FUNCTIONS)):
        imports = [n for n in walk(function) if isinstance(n, _IMPORTS)]
        imports = [node for node in imports if _imports_runtime(node, name)]
        first = min((node.lineno for node in imports), default=0)
        if any(use.lineno < first for use in _uses(function.body, name)):
            found.update(dict.fromkeys(imports))
    return list(found)


def _first_needed(tree: ast.Module, name: str) -> float:
    """Return the first line that uses the runtime as the file loads, or that calls code of the file which uses it."""
    in_functions = {use for f in _functions(tree.body) for use in _uses(f.body, name)}
    lines = [use.lineno for use in _uses(tree.body, name) if use not in in_functions]
    if not in_functions:
        return min(lines, default=math.inf)
    definitions = [n for n in tree.body if isinstance(n, (*FUNCTIONS, ast.ClassDef))]
    names = {node.name: set(map(_name, walk(node))) for node in definitions}
    users = reach([name], lambda one: (each for each, used in names.items() if one in used))
    inside = {inner for f in _functions(tree.body) for node in f.body for inner in walk(node)}
    calls = (n for n in walk(tree) if isinstance(n, ast.Call) and n not in inside)
    return min(
        [*lines, *(c.lineno for c in calls if _name(c.func) in users.keys() - {name})],
        default=math.inf,
    )


def _name(node: ast.AST) -> str:
    return node.id if isinstance(node, ast.Name) else ""


def _imports_runtime(node: ast.AST, name: str) -> bool:
    package, _, runtime = RUNTIME.rpartition(".")
    return any(
        (getattr(inner, "module", ""), alias.name) in {(package, runtime), ("", VENDORED)}
        and (alias.asname or alias.name) == name
        for inner in walk(node)
        if isinstance(inner, _IMPORTS)
        for alias in inner.names
    )


def inserted(source: Source, places: list[Insertion], name: str) -> str:
    """Return the text of `source` with the runtime's import at `places`."""
    lines = list(source.lines)
    for place in sorted(places, reverse=True, key=lambda place: place.line):
        beside = source.lines[place.beside.lineno - 1]
        indent = beside[: len(beside) - len(beside.lstrip())] or "    "
        new = [f"{indent}{RUNTIME_IMPORT}{name}{source.newline}"]
        if place.opens is not None:
            new.insert(0, f"else:{source.newline}")
        if place.line and not lines[place.line - 1].endswith(("\n", "\r")):
            lines[place.line - 1] += source.newline
        lines[place.line : place.line] = new
    return "".join(lines)


def insertions(
    tree: ast.Module, original: ast.Module, name: str, brings_torch: Test
) -> list[Insertion]:
    """Return where the runtime's import goes; nothing if the file loads torch, or uses the runtime, whenever it loads.

    Args:
        tree: the edited file.
        original: the file before the edits.
        name: the local name of the runtime.
        brings_torch: True for an import that loads torch.
    """
    at_once = (*tree.body, *original.body)
    if any(isinstance(node, _IMPORTS) and brings_torch(node) for node in at_once):
        return []
    functions = list(_functions(tree.body))
    in_functions = {use for function in functions for use in _uses(function.body, name)}
    early = [use for use in _uses(tree.body, name) if use not in in_functions]
    guard = next((node for node in tree.body if _may_import(node, brings_torch)), None)
    if guard is not None:
        return _in_guard(guard, early, brings_torch)
    if early or not all(_loads_without_torch(node) for node in tree.body):
        return []
    inner = (n for f in functions for n in walk(f) if isinstance(n, _IMPORTS))
    if not any(brings_torch(node) for node in inner):
        return []
    return [place for function in functions for place in _in_function(function, name, brings_torch)]


def _functions(body: list[ast.stmt]) -> Iterator[Function]:
    """Yield the functions of a module, and the methods of its classes."""
    for node in body:
        if isinstance(node, FUNCTIONS):
            yield node
        else:
            for field in ("body", "orelse", "finalbody", "handlers"):
                yield from _functions(getattr(node, field, []))


def _uses(body: list[ast.stmt], name: str) -> list[ast.Name]:
    return [n for node in body for n in walk(node) if isinstance(n, ast.Name) and n.id == name]


def _may_import(node: ast.stmt, brings_torch: Test) -> bool:
    """Return True for `try: import torch` that goes on without it, and for `if is_torch_available(): import torch`."""
    if not any(brings_torch(s) for s in getattr(node, "body", ()) if isinstance(s, _IMPORTS)):
        return False
    if isinstance(node, ast.Try):
        return not any(_ends(inner) for handler in node.handlers for inner in walk(handler))
    return (
        isinstance(node, ast.If)
        and not node.orelse
        and "TYPE_CHECKING" not in ast.unparse(node.test)
    )


def _ends(node: ast.AST) -> bool:
    if isinstance(node, ast.Call):
        return ast.unparse(node.func).rpartition(".")[2] in _ENDS
    return isinstance(node, ast.Raise)


def _in_guard(guard: ast.stmt, early: list[ast.Name], brings_torch: Test) -> list[Insertion]:
    """Return the place in `guard`, which imports torch; nothing if code outside it uses the runtime as the file loads."""
    assert isinstance(guard, (ast.If, ast.Try))
    of_body = {use for node in guard.body for use in walk(node)}
    of_else = {use for node in guard.orelse for use in walk(node)}
    if any(use not in of_body | of_else for use in early):
        return []
    if isinstance(guard, ast.Try) and not any(use in of_body for use in early):
        if guard.orelse:
            return [Insertion(guard.orelse[0].lineno - 1, guard.orelse[0])]
        last = guard.handlers[-1] if guard.handlers else None
        return [Insertion(last.end_lineno or 0, guard.body[0], guard)] if last else []
    imported = next(s for s in guard.body if isinstance(s, _IMPORTS) and brings_torch(s))
    return [Insertion(imported.end_lineno or 0, imported)]


def _loads_without_torch(node: ast.stmt) -> bool:
    """Return True unless an import in `node` may load torch."""
    roots = {name.partition(".")[0] for name in imported_modules(node)}
    fields = ("body", "orelse", "finalbody", "handlers") if not isinstance(node, FUNCTIONS) else ()
    inside = (s for field in fields for s in getattr(node, field, []))
    return roots <= sys.stdlib_module_names | WITHOUT_TORCH and all(
        map(_loads_without_torch, inside)
    )


def _in_function(function: Function, name: str, brings_torch: Test) -> Iterator[Insertion]:
    """Yield the places in `function`: after the imports of torch whose block uses the runtime, else before its first use."""
    open_uses = set(_uses(function.body, name))
    if any(isinstance(n, ast.alias) and (n.asname or n.name) == name for n in walk(function)):
        return
    for body in _bodies(function):
        for k, statement in enumerate(body):
            if isinstance(statement, _IMPORTS) and brings_torch(statement):
                covered = open_uses.intersection(_uses(body[k + 1 :], name))
                if covered:
                    open_uses -= covered
                    yield Insertion(statement.end_lineno or 0, statement)
    while open_uses:
        inner = _innermost(function, open_uses)
        covered = open_uses.intersection(_uses(inner.body, name))
        open_uses -= covered
        first = next(s for s in inner.body if covered.intersection(walk(s)))
        start = min([first.lineno, *(d.lineno for d in getattr(first, "decorator_list", ()))])
        yield Insertion(start - 1, first)


def _innermost(function: Function, uses: set[ast.Name]) -> Function:
    """Return the innermost function that contains some of `uses` in its body."""
    inner = [n for n in walk(function) if isinstance(n, FUNCTIONS)]
    return next(n for n in reversed(inner) if any(uses.intersection(walk(s)) for s in n.body))


def _bodies(node: ast.AST) -> Iterator[list[ast.stmt]]:
    for inner in walk(node):
        for field in ("body", "orelse", "finalbody"):
            body = getattr(inner, field, None)
            if isinstance(body, list):
                yield body
