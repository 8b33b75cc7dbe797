"""The beginning of a program, for statements that have to come first."""

from __future__ import annotations

import ast
from collections.abc import Callable

from .nodes import FUNCTIONS, walk

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
    functions = {n.name: n for n in tree.body if isinstance(n, FUNCTIONS)}
    waiting: list[ast.stmt] = list(body)
    while waiting:
        for node in walk(waiting.pop()):
            if does(node):
                return True
            if isinstance(node, ast.Name) and (called := functions.pop(node.id, None)) is not None:
                waiting.append(called)
    return False


def _is_text(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
