"""What is called a loss, and comes from calls that nothing is known of, beside a backward: `reduced = reduce_dict(losses)`."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from ...frameworks.accelerator import uses_accelerate
from ...inference.values import ARRAY, TENSOR, UNKNOWN
from ...nodes import walk
from ..training import BACKWARD

if TYPE_CHECKING:
    from ...scopes import Binding, FunctionNode
    from ...script import Script

# Methods whose results live on the host.
_LEAVES = frozenset({"cpu", "item", "numpy", "tolist"})


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
    return bool(reaching) and all(_gives_a_loss(script, node.id, binding) for binding in reaching)


def _computes_gradients(script: Script, function: FunctionNode | None) -> bool:
    """Return True if `function` (None: the module) does so, or has a loop that does, also through functions that it calls."""
    if any(script.function(b) is function for b, _ in script.index.calls_of("backward")):
        return True
    if function is not None and BACKWARD in script.training.function_effects(function):
        return True
    return any(
        BACKWARD in loop.effects and script.function(loop.node) is function
        for loop in script.training.loops
    )


def _gives_a_loss(script: Script, name: str, binding: Binding) -> bool:
    match binding.how, binding.value:
        case "assign", ast.Call():
            return "loss" in name.lower()
        case "for", ast.Call(func=ast.Attribute(value=ast.Name() as walked, attr=part)):
            return part in {"items", "values"} and _are_losses(script, walked)
        case "for", ast.Name() as walked:
            return _are_losses(script, walked)
        case "for", ast.Call(func=ast.Name(id="enumerate"), args=[ast.Name() as walked, *_]):
            return binding.path[-1:] == (1,) and _are_losses(script, walked)
        case "for", ast.Call(func=ast.Name(id="zip"), args=args) if binding.path:
            place = binding.path[-1]
            walked_by = args[place] if 0 <= place < len(args) else None
            return isinstance(walked_by, ast.Name) and _are_losses(script, walked_by)
    return False


def is_one_of_losses(script: Script, node: ast.Subscript) -> bool:
    """True for `losses[0]`, on which a method of tensors is called, where calls have given the list or dict."""
    owner = node.value
    if not isinstance(owner, ast.Name) or script.value(node) != UNKNOWN:
        return False
    if not (script.accelerated or uses_accelerate(script)) or not _are_losses(script, owner):
        return False
    reaching = script.reaching(owner)
    return (
        bool(reaching)
        and all(b.how == "assign" and _is_of_calls(b.value) for b in reaching)
        and _computes_gradients(script, script.function(node))
    )


def _are_losses(script: Script, node: ast.Name) -> bool:
    """True if `node` is called losses, and neither an array nor of what was brought to the host."""
    if "loss" not in node.id.lower() or script.value(node).has(ARRAY):
        return False
    return not any(_is_of_the_host(binding.value) for binding in script.reaching(node))


def _is_of_the_host(value: ast.expr | None) -> bool:
    """`loss(out).cpu()`, also in a list, a dict or a comprehension."""
    match value:
        case ast.ListComp(elt=part) | ast.DictComp(value=part):
            return _is_of_the_host(part)
        case ast.List(elts=parts) | ast.Tuple(elts=parts) | ast.Dict(values=parts):
            return any(map(_is_of_the_host, parts))
        case ast.Call(func=ast.Attribute(value=owner, attr="to"), args=given):
            named = any(
                isinstance(n, ast.Constant) and n.value == "cpu" for a in given for n in walk(a)
            )
            return named or _is_of_the_host(owner)
        case ast.Call(func=ast.Attribute(value=owner, attr=name)):
            return name in _LEAVES or _is_of_the_host(owner)
    return False


def _is_of_calls(value: ast.expr | None) -> bool:
    """`criterion(out, y)`, `[loss(out, y) for loss in ...]`, `{"a": loss(out, y)}`."""
    match value:
        case ast.ListComp(elt=part) | ast.DictComp(value=part):
            return isinstance(part, ast.Call)
        case ast.List(elts=[_, *_] as parts) | ast.Dict(values=[_, *_] as parts):
            return all(isinstance(part, ast.Call) for part in parts)
    return isinstance(value, ast.Call)
