"""Classes of a script that derive from a framework's own: `class CLI(LightningCLI)`, `class MyTrainer(L.Trainer)`."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

from ..nodes import walk

if TYPE_CHECKING:
    from ..script import Script


def derives(script: Script, definition: ast.ClassDef, made: Collection[str]) -> str:
    """The class of `made`, by dotted name, that a class of the file derives from, perhaps through others; else empty."""
    for owner in script.inference.lineage(definition):
        home = script.inference.scopes[owner].parent
        for base in owner.bases:
            dotted = script.dotted(base, home) or ""
            if dotted in made:
                return dotted
    return ""


def makings(script: Script, definition: ast.ClassDef) -> Iterator[ast.Call]:
    """The calls of the file that give the framework's class its arguments: `super().__init__(accelerator="gpu")`, and
    where the class has no `__init__` of its own, those that make its objects.
    """
    own = _init(definition)
    if own is not None:
        for node in walk(own):
            match node:
                case ast.Call(func=ast.Attribute(attr="__init__")):
                    yield node
    elif not any(_init(owner) for owner in script.inference.lineage(definition)):
        for call, scope in script.index.calls_of(definition.name):
            if script.inference.value(call.func, scope).definition is definition:
                yield call


def _init(definition: ast.ClassDef) -> ast.FunctionDef | None:
    for statement in definition.body:
        if isinstance(statement, ast.FunctionDef) and statement.name == "__init__":
            return statement
    return None
