"""Other modules of the project, and what their classes and functions do with a value."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, TypeVar

from .....source import Source
from ....projects.project import Project
from ..blocked import Blocked

if TYPE_CHECKING:
    from ....script import Script

Definition = TypeVar("Definition", ast.ClassDef, ast.FunctionDef)


def class_elsewhere(script: Script, dotted: str) -> tuple[Script, ast.ClassDef] | None:
    """Return the class that `dotted` names, with the module that defines it."""
    return _elsewhere(script, dotted, ast.ClassDef)


def function_elsewhere(script: Script, dotted: str) -> tuple[Script, ast.FunctionDef] | None:
    """Return the function that `dotted` names, with the module that defines it."""
    return _elsewhere(script, dotted, ast.FunctionDef)


def _elsewhere(
    script: Script, dotted: str, kind: type[Definition]
) -> tuple[Script, Definition] | None:
    project = script.project
    found = project.definition(dotted) if project is not None else None
    if found is None or not isinstance(found[0], kind):
        return None
    other = script_of(script, found[1])
    for statement in other.tree.body:
        if isinstance(statement, kind) and statement.name == found[0].name:
            return other, statement
    return None


def script_of(script: Script, path: str) -> Script:
    """Return the module of the project at `path`, fully analysed."""
    assert script.project is not None
    modules, kind = script.project.modules, type(script)
    if path == script.project.path:
        return script

    def whole() -> Script:
        return kind(
            Source(modules.files[path]), path, parallel="spmd", project=Project(modules, path)
        )

    return modules.remembered(("script", path), whole)


def node_at(script: Script, node: ast.expr) -> ast.expr:
    """Return the node of `script` at the place of `node`, which stands in another tree of the same module."""
    for other, _ in script.index.of(type(node)):
        if _place(other) == _place(node):
            return other
    raise Blocked("callers that are not known here use it")


def _place(node: ast.expr) -> tuple[int, int, int | None, int | None]:
    return node.lineno, node.col_offset, node.end_lineno, node.end_col_offset


def method_of(definition: ast.ClassDef, name: str) -> ast.FunctionDef | None:
    """Return the method that `definition` itself has."""
    for statement in definition.body:
        if isinstance(statement, ast.FunctionDef) and statement.name == name:
            return None if statement.decorator_list else statement
    return None
