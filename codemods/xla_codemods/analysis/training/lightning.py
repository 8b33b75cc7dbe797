"""Classes that Lightning trains: it moves them, steps their optimizers and marks their steps."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from ..scopes import resolve

if TYPE_CHECKING:
    from ..parsed_file import ParsedFile
    from ..projects.project import Modules

_MODULE = "LightningModule"
_PACKAGES = ("lightning.", "pytorch_lightning.")
_MOST = 4  # bases
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
    return _derives(script, definition, 0) or definition in script.cached(_used_as_one)


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


def _derives(script: ParsedFile, definition: ast.ClassDef, depth: int) -> bool:
    for base in definition.bases:
        dotted = script.dotted(base) or ""
        if _is_its_class(dotted):
            return True
        parent = script.value(base).definition
        if (
            isinstance(parent, ast.ClassDef)
            and depth < _MOST
            and _derives(script, parent, depth + 1)
        ):
            return True
        project = script.project
        found = project.definition(dotted) if project is not None and dotted else None
        if project is not None and found is not None:
            project.asked = True
            if _derives_elsewhere(project.modules, *found, depth + 1):
                return True
    return False


def _derives_elsewhere(modules: Modules, node: ast.AST, path: str, depth: int) -> bool:
    """The same of a class of the module at `path`."""
    scope = modules.scope(path)
    if scope is None or not isinstance(node, ast.ClassDef) or depth > _MOST:
        return False
    for base in node.bases:
        dotted = resolve(base, scope) or ""
        if _is_its_class(dotted):
            return True
        own = scope.bindings.get(base.id, ()) if isinstance(base, ast.Name) else ()
        found = (
            (own[0].node, path) if own and own[0].how == "class" else modules.defined(dotted, path)
        )
        if found is not None and _derives_elsewhere(modules, *found, depth + 1):
            return True
    return False


def _is_its_class(dotted: str) -> bool:
    return dotted.startswith(_PACKAGES) and dotted.endswith(_MODULE)
