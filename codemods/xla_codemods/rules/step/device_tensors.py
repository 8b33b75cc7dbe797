"""Is this expression surely a tensor on the accelerator? Where it may be anything else, the answer is no."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ... import flow
from ...values import ACCEL, ACCELERATOR, ARRAY, BATCH, HOST, MODULE, NONE, NUMBER, STRING, TENSOR

if TYPE_CHECKING:
    from ...script import Script

# Attributes that are tensors, of tensors and of the outputs of models.
_TENSORS = frozenset(
    "T mT data grad real imag loss logits last_hidden_state pooler_output prediction_logits".split()
)
_OTHERS = frozenset({ARRAY, MODULE, NONE, NUMBER, STRING})


def is_device_tensor(script: Script, node: ast.expr) -> bool:
    """Whether `node` is a tensor on the accelerator, and nothing but that."""
    value = script.value(node)
    if value.has(TENSOR) and value.has(ACCEL):
        return (
            not value.kinds & {*_OTHERS, BATCH}
            and not value.items
            and _is_tensor_for_sure(script, node)
        )
    return isinstance(node, (ast.Name, ast.Attribute)) and _is_backwarded(script, node)


def may_be_read(script: Script, node: ast.expr) -> bool:
    """Whether `node`, on which a method of tensors alone is called, is on the accelerator."""
    value = script.value(node)
    if value.has(TENSOR) and value.kinds & {ACCEL, HOST}:
        return value.has(ACCEL)
    return isinstance(node, (ast.Name, ast.Attribute)) and _is_backwarded(script, node)


def _is_tensor_for_sure(script: Script, node: ast.expr) -> bool:
    """Not an attribute of something like a tensor, nor a part of what a model has returned."""
    match node:
        case ast.Attribute(attr=name, value=owner):
            return name in _TENSORS and (name != "data" or _is_tensor_for_sure(script, owner))
        case ast.Subscript(value=owner):
            return not _comes_from_a_model(script, owner)
        case ast.Call(func=ast.Attribute(value=owner)):
            return script.dotted(node.func) is not None or not script.value(owner).has(MODULE)
        case ast.Call():
            return not script.value(node.func).has(MODULE) or _is_loss(script, node.func)
        case ast.Name():
            return _is_bound_to_tensors(script, node)
    return True


def _is_bound_to_tensors(script: Script, node: ast.Name) -> bool:
    """Whether what reaches `node` are whole values that are tensors for sure."""
    found = script.index.scope(node).find(node.id)
    if found is None:
        return False
    home, bindings = found
    for binding in flow.reaching(bindings, node, home, script.parents):
        if binding.how in {"augment", "parameter", "with"}:
            continue
        if binding.value is None:
            return False
        if binding.path and binding.how == "assign":
            if not isinstance(binding.value, (ast.Tuple, ast.List)) and _comes_from_a_model(
                script, binding.value
            ):
                return _is_backwarded(script, node)
        elif not binding.path and not _is_tensor_for_sure(script, binding.value):
            return _is_backwarded(script, node)
    return True


def _comes_from_a_model(script: Script, node: ast.expr) -> bool:
    """Whether `node` is what a model's call returned, which may be anything: a tuple, an object, numbers in it."""
    match node:
        case ast.Call(func=func):
            return script.value(func).has(MODULE) and not _is_loss(script, func)
        case ast.Name():
            found = script.index.scope(node).find(node.id)
            if found is None:
                return False
            home, bindings = found
            reaching = flow.reaching(bindings, node, home, script.parents)
            return any(
                b.how == "assign"
                and b.value is not None
                and b.value is not node
                and _comes_from_a_model(script, b.value)
                for b in reaching
                if not isinstance(b.value, ast.Name)
            )
    return False


def _is_loss(script: Script, func: ast.expr) -> bool:
    """A loss of torch.nn: it returns one tensor."""
    found = script.index.scope(func)
    if not isinstance(func, (ast.Name, ast.Attribute)):
        return False
    name = func.id if isinstance(func, ast.Name) else func.attr
    bound = found.find(name)
    values = [b.value for b in bound[1]] if bound else []
    dotted = [script.dotted(v.func) or "" for v in values if isinstance(v, ast.Call)]
    return any(
        d.startswith("torch.nn.") and d.endswith("Loss") for d in dotted
    ) or name.lower().endswith(
        ("criterion", "loss", "loss_fn", "loss_function", "loss_func", "bce", "mse")
    )


def _is_backwarded(script: Script, node: ast.expr) -> bool:
    """Whether gradients of `node` are computed in the same function: it is a tensor then, and here on the device."""
    function = script.function(node)
    text = ast.unparse(node)
    return (script.accelerated or script.uses_accelerate) and any(
        ast.unparse(loss) == text and script.function(loss) is function for loss in losses(script)
    )


def losses(script: Script) -> Iterator[ast.expr]:
    """What `backward` is called on: `loss.backward()`, `scaler.scale(loss).backward()`, `accelerator.backward(loss)`."""
    for call, _ in script.index.calls_of("backward"):
        match call:
            case ast.Call(
                func=ast.Attribute(value=ast.Call(func=ast.Attribute(attr="scale"), args=[loss]))
            ):
                yield loss
            case ast.Call(func=ast.Attribute(value=owner), args=[loss, *_]) if script.value(
                owner
            ).has(ACCELERATOR):
                yield loss
            case ast.Call(func=ast.Attribute(value=owner)) if script.training.is_backward(call):
                yield owner
