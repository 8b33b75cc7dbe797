"""The base classes of a program's classes."""

from __future__ import annotations

import ast
import builtins
import sys

from ..scopes import Scope, resolve
from .annotations import kinds_of
from .inference import Inference

# Packages without any class that is a tensor or a module, except the classes of torch that `kinds_of` knows.
_PLAIN = frozenset({*sys.stdlib_module_names, "numpy", "torch", "typing_extensions"})


def derives_from_unknown(inference: Inference, definition: ast.ClassDef) -> bool:
    """True if a base of the class is of a library that may make a tensor or a module of it, or is not known at all."""
    for owner in inference.lineage(definition):
        home = inference.scopes[owner].parent
        if home is None or any(_is_unknown(inference, owner, base, home) for base in owner.bases):
            return True
    return definition not in inference.scopes


def _is_unknown(inference: Inference, owner: ast.ClassDef, base: ast.expr, home: Scope) -> bool:
    if isinstance(base, ast.Subscript):  # `Generic[T]`
        base = base.value
    parent = inference.value(base, home).definition
    if isinstance(parent, ast.ClassDef):
        return owner in inference.lineage(parent)  # it has taken the name of what it derives from
    dotted = resolve(base, home)
    if dotted is None:
        return not (isinstance(base, ast.Name) and hasattr(builtins, base.id))
    return dotted.partition(".")[0] not in _PLAIN and not kinds_of(dotted)
