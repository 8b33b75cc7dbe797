"""Flags of installed packages (`HAS_APEX = True`) after the edits have removed the uses of the package."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ..analysis.nodes import walk
from ..analysis.parsed_file import ParsedFile
from ..analysis.syntax import imported_as, packages

_IMPORTS = (ast.Import, ast.ImportFrom)


def settled_flags(
    tree: ast.Module, script: ParsedFile, gone: set[str], used: set[str]
) -> Iterator[tuple[ast.Try, str]]:
    """Yield each `try: import apex; HAS_APEX = True` whose import nothing needs any more, with the flags that remain."""
    for guard in (node for node in walk(tree) if isinstance(node, ast.Try)):
        imports = set(presence_imports(guard))
        flags = [s for s in (*guard.body, *guard.orelse) if isinstance(s, ast.Assign)]
        names = {target.id for s in flags for target in s.targets if isinstance(target, ast.Name)}
        if not imports or guard.finalbody or any(map(script.is_imported_elsewhere, names)):
            continue
        if not all(s in imports or s in flags for s in (*guard.body, *guard.orelse)):
            continue
        if not all(isinstance(s.value, ast.Constant) for s in flags):
            continue
        if any(imported_as(alias) not in gone for s in imports for alias in s.names):
            continue
        if any("torch_xla" in packages(s) for s in imports):
            continue  # scripts for several machines choose code by this flag
        handled = (s for handler in guard.handlers for s in handler.body)
        if all(only_complains(s, gone | names) for s in handled):
            # Without a project, unknown modules may import the flag.
            remaining = [s for s in flags if script.project.is_alone or _binds(s, used)]
            yield guard, "\n".join(map(ast.unparse, remaining))


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


def presence_imports(guard: ast.Try) -> Iterator[ast.Import | ast.ImportFrom]:
    """Yield the imports of `try: import apex; HAS_APEX = True`, which set a flag; torch itself is always there."""
    if any(isinstance(s, ast.Assign) and isinstance(s.value, ast.Constant) for s in guard.body):
        for statement in guard.body:
            if isinstance(statement, _IMPORTS) and packages(statement) != {"torch"}:
                yield statement
