"""What the classes of a program derive from."""

from __future__ import annotations

import ast
import builtins
import sys
from typing import TYPE_CHECKING

from ..scopes import resolve
from .annotations import kinds_of

if TYPE_CHECKING:
    from .inference import Inference

# Packages none of whose classes is a tensor or a module, but for those of torch that `kinds_of` knows.
_PLAIN = frozenset({*sys.stdlib_module_names, "numpy", "torch", "typing_extensions"})


def derives_from_unknown(inference: Inference, definition: ast.ClassDef) -> bool:
    """True if a base of the class is of a library that may make a tensor or a module of it, or is not known at all."""
    scope = inference.scopes.get(definition)
    home = scope.parent if scope is not None else None
    if home is None:
        return True
    for base in definition.bases:
        if isinstance(base, ast.Subscript):  # `Generic[T]`
            base = base.value
        parent = inference.value(base, home).definition
        if isinstance(parent, ast.ClassDef):
            if parent is not definition and derives_from_unknown(inference, parent):
                return True
            continue
        dotted = resolve(base, home)
        if dotted is None:
            if not (isinstance(base, ast.Name) and hasattr(builtins, base.id)):
                return True
        elif dotted.partition(".")[0] not in _PLAIN and not kinds_of(dotted):
            return True
    return False
