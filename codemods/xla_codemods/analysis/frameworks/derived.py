"""The arguments that subclasses of a framework's class (`class MyTrainer(L.Trainer)`) pass to it."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ..nodes import walk
from ..script import Script


def makings(script: Script, definition: ast.ClassDef) -> Iterator[ast.Call]:
    """Return the calls of the file that give the framework's class its arguments: `super().__init__(accelerator="gpu")`, or,
    if the class has no `__init__`, the calls that make its objects.
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
