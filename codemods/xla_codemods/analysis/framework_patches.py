"""The place for a framework's patch: once before every object that the framework makes, on every path."""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

from ..edits import Edit, InsertBefore
from .flow import has_run
from .frameworks.arguments import TRAINERS
from .frameworks.sharding import PLUGINS

if TYPE_CHECKING:
    from .script import Script

# What is made with accelerate, and so after `patch_accelerate`.
MADE_WITH_ACCELERATE = (
    TRAINERS | PLUGINS | {"accelerate.Accelerator", "accelerate.accelerator.Accelerator"}
)


def patched_before(
    script: Script,
    call: ast.Call | ast.ClassDef,
    patch: str,
    made: Collection[str],
    is_left: Callable[[ast.Call], bool] = lambda call: False,
) -> Edit | None:
    """The edit that calls the runtime's `patch` before `call`, or before a class.

    None where the file says so already, or where another call of `made`, by dotted name, brings it: one that is not left, and
    has run whenever `call` runs.
    """
    if f"{patch}()" in script.source.text or _is_inside(script, made):
        return None
    calls = script.cached(_calls_by_name)
    for other in (other for name in made for other in calls.get(name, ())):
        comes_first = (other.lineno, other.col_offset) < (call.lineno, call.col_offset)
        if comes_first and not is_left(other):
            if has_run(script.statement(other), call, script.parents):
                return None
    return InsertBefore(script.statement(call), f"{script.xla}.{patch}()")


def _is_inside(script: Script, made: Collection[str]) -> bool:
    """Return True if the file is a module of the framework, which the runtime imports to patch it."""
    project = script.project
    return project is not None and any(map(project.is_of_its_package, made))


def _calls_by_name(script: Script) -> dict[str, list[ast.Call]]:
    """Map dotted names of libraries to the calls of the file."""
    found: dict[str, list[ast.Call]] = {}
    for call, scope in script.index.of(ast.Call):
        dotted = script.dotted(call.func, scope)
        if dotted is not None:
            found.setdefault(dotted, []).append(call)
    return found
