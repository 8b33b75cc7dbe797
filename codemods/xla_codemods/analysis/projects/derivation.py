"""Whether a class derives from a library's, also through classes of other modules of the project."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import TYPE_CHECKING

from ..scopes import resolve

if TYPE_CHECKING:
    from ..parsed_file import ParsedFile
    from .project import Modules

_MOST = 4  # bases


def derives(
    script: ParsedFile, definition: ast.ClassDef, is_it: Callable[[str], bool], depth: int = 0
) -> bool:
    """True if a base of `definition`, or of one of its bases, has a dotted name for which `is_it` holds."""
    for base in definition.bases:
        dotted = script.dotted(base) or ""
        if is_it(dotted):
            return True
        parent = script.value(base).definition
        if (
            isinstance(parent, ast.ClassDef)
            and depth < _MOST
            and derives(script, parent, is_it, depth + 1)
        ):
            return True
        project = script.project
        found = project.definition(dotted) if project is not None and dotted else None
        if project is not None and found is not None:
            project.asked = True
            if _derives_elsewhere(project.modules, *found, is_it, depth + 1):
                return True
    return False


def _derives_elsewhere(
    modules: Modules, node: ast.AST, path: str, is_it: Callable[[str], bool], depth: int
) -> bool:
    """The same of a class of the module at `path`."""
    scope = modules.scope(path)
    if scope is None or not isinstance(node, ast.ClassDef) or depth > _MOST:
        return False
    for base in node.bases:
        dotted = resolve(base, scope) or ""
        if is_it(dotted):
            return True
        own = scope.bindings.get(base.id, ()) if isinstance(base, ast.Name) else ()
        found = (
            (own[0].node, path) if own and own[0].how == "class" else modules.defined(dotted, path)
        )
        if found is not None and _derives_elsewhere(modules, *found, is_it, depth + 1):
            return True
    return False
