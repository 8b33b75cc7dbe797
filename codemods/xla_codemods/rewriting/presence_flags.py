"""What is left of tests whether a package is installed, once the edits have removed its uses."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ..analysis.parsed_file import ParsedFile

_IMPORTS = (ast.Import, ast.ImportFrom)


def imported_as(alias: ast.alias) -> str:
    """Return the name that an import binds."""
    return alias.asname or alias.name.partition(".")[0]


def settled_flags(
    tree: ast.Module, script: ParsedFile, gone: set[str], used: set[str]
) -> Iterator[tuple[ast.Try, str]]:
    """Yield each `try: import apex; HAS_APEX = True` whose import nothing needs any more, and the flags that stay."""
    for guard in (node for node in ast.walk(tree) if isinstance(node, ast.Try)):
        told = set(tells(guard))
        flags = [s for s in (*guard.body, *guard.orelse) if isinstance(s, ast.Assign)]
        names = {target.id for s in flags for target in s.targets if isinstance(target, ast.Name)}
        if not told or guard.finalbody or any(map(script.is_imported_elsewhere, names)):
            continue
        if not all(s in told or s in flags for s in (*guard.body, *guard.orelse)):
            continue
        if not all(isinstance(s.value, ast.Constant) for s in flags):
            continue
        if any(imported_as(a) not in gone or _is_of_torch_xla(s, a) for s in told for a in s.names):
            continue
        handled = (s for handler in guard.handlers for s in handler.body)
        if all(only_complains(s, gone | names) for s in handled):
            is_known = script.project is not None  # without one, other modules may import the flag
            left = [s for s in flags if not is_known or _binds(s, used)]
            yield guard, "\n".join(map(ast.unparse, left))


def _is_of_torch_xla(node: ast.Import | ast.ImportFrom, alias: ast.alias) -> bool:
    """Return True for an import of torch_xla: scripts for several machines ask if it is installed."""
    name = node.module or "" if isinstance(node, ast.ImportFrom) else alias.name
    return name.partition(".")[0] == "torch_xla"


def _binds(statement: ast.Assign, names: set[str]) -> bool:
    return any(getattr(target, "id", "") in names for target in statement.targets)


def only_complains(statement: ast.stmt, gone: set[str]) -> bool:
    """Return True if a handler's statement only prints, raises, or binds names of `gone`."""
    match statement:
        case ast.Pass() | ast.Raise() | ast.Expr(value=ast.Constant()):
            return True
        case ast.Expr(value=ast.Call(func=ast.Name(id="print"))):
            return True
        case ast.Expr(
            value=ast.Call(func=ast.Attribute(attr="warn" | "warning" | "info" | "error" | "exit"))
        ):
            return True
        case ast.Assign(targets=[ast.Name(id=name)], value=ast.Constant()):
            return name in gone
        case (
            ast.ClassDef(name=name) | ast.FunctionDef(name=name)
        ):  # a stand-in for what was missing
            return name in gone
    return False


def tells(guard: ast.Try) -> Iterator[ast.Import | ast.ImportFrom]:
    """The imports of `try: import apex; HAS_APEX = True`: they stay, for what they tell."""
    if any(isinstance(s, ast.Assign) and isinstance(s.value, ast.Constant) for s in guard.body):
        for statement in guard.body:
            if isinstance(statement, _IMPORTS) and not _brings_torch_itself(statement):
                yield statement


def _brings_torch_itself(node: ast.Import | ast.ImportFrom) -> bool:
    if isinstance(node, ast.ImportFrom):
        return (node.module or "").partition(".")[0] == "torch"
    return all(a.name.partition(".")[0] == "torch" for a in node.names)
