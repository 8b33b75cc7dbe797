"""Sums that are tensors of the device: `totals[0] += loss.item()`, where `totals = torch.zeros(2).to(device)`."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from ...syntax import keyword
from ..tensors.device_tensors import is_device_tensor
from .read_numbers import tensor_of

if TYPE_CHECKING:
    from ...script import Script

_MAKES = frozenset({"torch.ones", "torch.zeros"})
_SINGLE = frozenset({"torch.float", "torch.float32"})


def is_added_on_the_device(
    script: Script, node: ast.expr, read: ast.expr, target: ast.Subscript
) -> bool:
    """Return True if `target += node` adds a read to an element of a 32-bit tensor of the device.

    The element adds tensors and numbers alike.
    """
    owner = target.value
    if node is not read or not isinstance(read, ast.Call) or not isinstance(owner, ast.Name):
        return False
    bindings = script.bindings(owner)
    if len(bindings) != 1 or bindings[0].how != "assign" or bindings[0].path:
        return False
    made = bindings[0].value
    is_there = is_device_tensor(script, owner) or _is_moved_by_index(script, made)
    is_sum = isinstance(target.slice, ast.Constant) and is_there and _is_single(script, made)
    return is_sum and is_device_tensor(script, tensor_of(read))


def _is_moved_by_index(script: Script, made: ast.expr | None) -> bool:
    """Return True for `.to(local_rank)`, whose device another fix names."""
    match made:
        case ast.Call(func=ast.Attribute(attr="to"), args=[index], keywords=[]):
            return script.devices.is_index(index)
    return False


def _is_single(script: Script, made: ast.expr | None) -> bool:
    """Return True for `torch.zeros(2, device=device)` and `torch.zeros(2).to(device)`."""
    match made:
        case ast.Call(func=ast.Attribute(attr="cuda", value=inner), args=[], keywords=[]):
            return _is_single(script, inner)
        case ast.Call(func=ast.Attribute(attr="to", value=inner), args=[device], keywords=[]):
            is_type = (script.dotted(device) or "").startswith("torch.")  # .to(torch.float64)
            return not is_type and _is_single(script, inner)
        case ast.Call(func=func) if script.dotted(func) in _MAKES:
            dtype = keyword(made, "dtype")
            return dtype is None or script.dotted(dtype) in _SINGLE
    return False
