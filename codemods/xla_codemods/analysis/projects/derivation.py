"""Whether a class derives from a library's, also through classes of other modules of the project."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from ...flow.closure import reach
from ..scopes import resolve

if TYPE_CHECKING:
    from ..parsed_file import ParsedFile


def derives(script: ParsedFile, definition: ast.ClassDef, is_it: Callable[[str], bool]) -> bool:
    """True if a base of `definition`, or of one of its bases, has a dotted name for which `is_it` holds."""
    return any(map(is_it, script.cached(names_of_bases, definition)))


def names_of_bases(script: ParsedFile, definition: ast.ClassDef) -> set[str]:
    """Return the dotted names of the bases of `definition`, and of the bases of these."""
    classes = reach([(definition, "")], lambda one: _bases(script, *one))
    return {_dotted(script, base, path) for found, path in classes for base in found.bases}


def _dotted(script: ParsedFile, base: ast.expr, path: str) -> str:
    """Return the dotted name of `base` in the module at `path`, "" for the script itself."""
    if not path:
        return script.dotted(base) or ""
    scope = script.project.modules.scope(path) if script.project is not None else None
    return resolve(base, scope) or "" if scope is not None else ""


def _bases(
    script: ParsedFile, definition: ast.ClassDef, path: str
) -> Iterator[tuple[ast.ClassDef, str]]:
    """Yield the classes of the program that `definition` derives from, each with its module."""
    project = script.project
    for base in definition.bases:
        dotted = _dotted(script, base, path)
        own = script.value(base).definition if not path else _own(script, base, path)
        if isinstance(own, ast.ClassDef):
            yield own, path
        if project is None or not dotted:
            continue
        found = project.modules.defined(dotted, path) if path else project.definition(dotted)
        if found is not None and isinstance(found[0], ast.ClassDef):
            yield found[0], found[1]


def _own(script: ParsedFile, base: ast.expr, path: str) -> ast.AST | None:
    """Return the class of the module at `path` that the name `base` stands for there."""
    scope = script.project.modules.scope(path) if script.project is not None else None
    if scope is None or not isinstance(base, ast.Name):
        return None
    bindings = scope.bindings.get(base.id, ())
    return bindings[0].node if bindings and bindings[0].how == "class" else None
