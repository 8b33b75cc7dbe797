"""Classes that Lightning trains: it moves them, steps their optimizers and marks their steps."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..parsed_file import ParsedFile

_MODULE = "LightningModule"
_PACKAGES = ("lightning.", "pytorch_lightning.")
_BEFORE_IT_IS_PLACED = frozenset({"__init__", "setup", "configure_optimizers"})


def is_lightnings(script: ParsedFile, node: ast.AST) -> bool:
    """True if `node` stands in a LightningModule."""
    if not script.source.mentions(_MODULE.lower()):
        return False
    return any(
        isinstance(around, ast.ClassDef) and _derives(script, around, 0)
        for around in script.ancestors(node)
    )


def own_device(script: ParsedFile, node: ast.AST) -> str | None:
    """`self.device` in a method of a LightningModule, which is where Lightning has put it."""
    function = script.function(node)
    owner = script.parent(function) if function is not None else None
    if function is None or not isinstance(owner, ast.ClassDef) or not function.args.args:
        return None
    if function.name in _BEFORE_IT_IS_PLACED or not is_lightnings(script, function):
        return None
    return f"{function.args.args[0].arg}.device" if not function.decorator_list else None


def _derives(script: ParsedFile, definition: ast.ClassDef, depth: int) -> bool:
    for base in definition.bases:
        dotted = script.dotted(base) or ""
        if dotted.startswith(_PACKAGES) and dotted.endswith(_MODULE):
            return True
        parent = script.value(base).definition
        if isinstance(parent, ast.ClassDef) and depth < 4 and _derives(script, parent, depth + 1):
            return True
    return False
