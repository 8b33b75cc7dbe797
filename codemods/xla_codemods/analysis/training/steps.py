"""Optimizer steps that are not this place's to mark."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..parsed_file import ParsedFile

_REMOTE = frozenset({"rpc_sync", "rpc_async", "remote"})


def is_marked_elsewhere(script: ParsedFile, call: ast.Call, optimizer: ast.expr) -> bool:
    """True if another place marks the step `call`: another process, or whoever steps the optimizer around this one."""
    match optimizer:
        case ast.Call(func=ast.Attribute(attr=name)) if name in _REMOTE:
            return True
    function = script.function(call)
    return function is not None and function.name == "step" and is_of_an_optimizer(script, call)


def is_of_an_optimizer(script: ParsedFile, node: ast.AST) -> bool:
    """True if `node` stands in a method of an optimizer's class: it is part of a step that others take."""
    function = script.function(node)
    home = script.parent(function) if function is not None else None
    return isinstance(home, ast.ClassDef) and any(
        _is_optimizer_class(script.dotted(base)) for base in home.bases
    )


def _is_optimizer_class(dotted: str | None) -> bool:
    return dotted is not None and dotted.startswith("torch.optim.") and "lr_sched" not in dotted
