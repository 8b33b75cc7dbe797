"""Classes that Lightning trains: it moves them, steps their optimizers and marks their steps."""

from __future__ import annotations

import ast

from ..parsed_file import ParsedFile
from ..projects.callees import callees_of, derives

_MODULE = "LightningModule"
_PACKAGES = ("lightning.", "pytorch_lightning.")
_USED = ("manual_backward", "training_step")
_BEFORE_IT_IS_PLACED = frozenset({"__init__", "setup", "configure_optimizers"})


def is_lightnings(script: ParsedFile, node: ast.AST) -> bool:
    """True if `node` stands in a LightningModule, also one that derives from another module's, or is used as one."""
    return any(
        isinstance(around, ast.ClassDef) and is_its_module(script, around)
        for around in script.ancestors(node)
    )


def is_its_module(script: ParsedFile, definition: ast.ClassDef) -> bool:
    """True if the class is a LightningModule, also one that derives from another module's, or is used as one."""
    if not script.source.mentions(_MODULE.lower(), *_USED):
        return False
    return derives(script, definition, _is_its_class) or definition in script.cached(_used_as_one)


def is_imported_module(script: ParsedFile, dotted: str | None) -> bool:
    """Return True if `dotted` names a LightningModule of another module of the project."""
    callees = callees_of(script)
    found = callees.defined(script.index, dotted) if dotted is not None else None
    if found is None or not isinstance(found[1], ast.ClassDef):
        return False
    lineage = callees.lineage(found[0], found[1])
    names = (home.dotted(base) for home, owner in lineage for base in owner.bases)
    return any(name is not None and _is_its_class(name) for name in names)


def _used_as_one(script: ParsedFile) -> frozenset[ast.AST]:
    """Classes with a `training_step` in which `self.manual_backward(loss)` is called: who else has that?"""
    return frozenset(
        around
        for call, _ in script.index.calls_of("manual_backward")
        for around in script.ancestors(call)
        if isinstance(around, ast.ClassDef)
        and any(isinstance(m, ast.FunctionDef) and m.name == "training_step" for m in around.body)
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


def _is_its_class(dotted: str) -> bool:
    return dotted.startswith(_PACKAGES) and dotted.endswith(_MODULE)
