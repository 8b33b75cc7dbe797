"""The beginning of a program, for statements that have to come first."""

from __future__ import annotations

import ast
from collections.abc import Callable

from ..flow.closure import reach
from .nodes import FUNCTIONS, walk
from .syntax import identifiers

_HEAD = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def first_statement(tree: ast.Module, does: Callable[[ast.AST], bool]) -> ast.stmt | None:
    """The first under `if __name__ == "__main__":`, or else of a module that runs what `does` is true of; None in others."""
    for statement in tree.body:
        if isinstance(statement, ast.If) and "__name__" in ast.unparse(statement.test):
            return statement.body[0]
    body = [s for s in tree.body if not isinstance(s, _HEAD) and not _is_text(s)]
    return body[0] if _runs(tree, body, does) else None


def _runs(tree: ast.Module, body: list[ast.stmt], does: Callable[[ast.AST], bool]) -> bool:
    """True if it is in these statements, or in functions of the module that they call."""
    functions: dict[str, ast.stmt] = {n.name: n for n in tree.body if isinstance(n, FUNCTIONS)}

    def called(statement: ast.stmt) -> list[ast.stmt]:
        return [functions[name] for name in identifiers(statement) if name in functions]

    return any(does(node) for statement in reach(body, called) for node in walk(statement))


def _is_text(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
