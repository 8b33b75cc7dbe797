"""Sums that are tensors of the device already: `totals[0] += loss.item()`, where `totals = torch.zeros(2).to(device)`."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from ...syntax import keyword
from ..tensors.device_tensors import is_device_tensor
from .calls import tensor_of

if TYPE_CHECKING:
    from ...script import Script

_MAKES = frozenset({"torch.ones", "torch.zeros"})
_MOVES = frozenset({"cuda", "to"})
_SINGLE = frozenset({"torch.float", "torch.float32"})


def is_added_on_the_device(
    script: Script, node: ast.expr, read: ast.expr, target: ast.Subscript
) -> bool:
    """True if `target += node` adds what is read as it is, a tensor of the device, to an element of another."""
    if node is not read or not isinstance(read, ast.Call):
        return False
    return _is_sum(script, target) and is_device_tensor(script, tensor_of(read))


def _is_sum(script: Script, target: ast.Subscript) -> bool:
    """True if `target` is an element of a tensor of the device with 32 bits, to which numbers and tensors add the same."""
    owner = target.value
    if not isinstance(owner, ast.Name) or not isinstance(target.slice, ast.Constant):
        return False
    scope = script.index.scope(owner)
    found = scope.find(owner.id)
    if found is None or found[0] is not scope or len(found[1]) != 1:
        return False
    (binding,) = found[1]
    made = binding.value if binding.how == "assign" and not binding.path else None
    if made is None or not _is_single(script, made):
        return False
    return is_device_tensor(script, owner) or _is_moved_by_index(script, made)


def _is_moved_by_index(script: Script, made: ast.expr) -> bool:
    """`.to(local_rank)`, whose device another fix names."""
    match made:
        case ast.Call(func=ast.Attribute(attr="to"), args=[index], keywords=[]):
            return script.devices.is_index(index)
    return False


def _is_single(script: Script, made: ast.expr) -> bool:
    """`torch.zeros(2, device=device)`, `torch.zeros(2).to(device)`."""
    while isinstance(made, ast.Call) and isinstance(made.func, ast.Attribute):
        dotted = script.dotted(made.func)
        if dotted in _MAKES:
            dtype = keyword(made, "dtype")
            return dtype is None or script.dotted(dtype) in _SINGLE
        if made.func.attr not in _MOVES or len(made.args) > 1 or keyword(made, "dtype"):
            return False
        if made.args and (script.dotted(made.args[0]) or "").startswith("torch."):
            return False  # .to(torch.float64)
        made = made.func.value
    return False
