"""What is called a loss, and comes from calls that nothing is known of, beside a backward: `reduced = reduce_dict(losses)`."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from ...frameworks.accelerator import uses_accelerate
from ...inference.values import TENSOR, UNKNOWN
from ..training import BACKWARD

if TYPE_CHECKING:
    from ...scopes import Binding, FunctionNode
    from ...script import Script


def is_called_a_loss(script: Script, node: ast.Name) -> bool:
    """True if `node`, on which a method of tensors is called, is a loss of the training step, or one of a dict of them."""
    if not (script.accelerated or uses_accelerate(script)):
        return False
    value = script.value(node)
    if value != UNKNOWN and value.kinds != {TENSOR}:  # a tensor whose place is not known
        return False
    function = script.function(node)
    if not _computes_gradients(script, function):
        return False
    reaching = script.reaching(node)
    return bool(reaching) and all(_gives_a_loss(node.id, binding) for binding in reaching)


def _computes_gradients(script: Script, function: FunctionNode | None) -> bool:
    """True if `function`, or the module where that is None, does so, or has a loop that does; also by others that it calls."""
    if any(script.function(b) is function for b, _ in script.index.calls_of("backward")):
        return True
    if function is not None and BACKWARD in script.training.function_effects(function):
        return True
    return any(
        BACKWARD in loop.effects and script.function(loop.node) is function
        for loop in script.training.loops
    )


def _gives_a_loss(name: str, binding: Binding) -> bool:
    match binding.how, binding.value:
        case "assign", ast.Call():
            return "loss" in name.lower()
        case "for", ast.Call(func=ast.Attribute(value=ast.Name(id=owner), attr="items" | "values")):
            return "loss" in owner.lower()
    return False
