"""Tensors that a training step computes from what its loss is computed from: `clip_fraction`, `approx_kl`, an entropy.

Torch computes with tensors of one device alone, so they are on the loss's device.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from typing import TYPE_CHECKING

from ....flow.closure import reach
from ...frameworks.accelerator import uses_accelerate
from ...inference.values import HOST, TENSOR

if TYPE_CHECKING:
    from ...scopes import Binding, FunctionNode
    from ...script import Script

# Methods whose results are on the host, or on another device than their tensor.
_LEAVES = frozenset({"cpu", "cuda", "item", "numpy", "size", "stride", "to", "tolist"})


def is_computed_with(script: Script, node: ast.expr, losses: Iterable[ast.expr]) -> bool:
    """Return True if `node` is computed from a name of this function that one of `losses` is computed from, too."""
    if not (script.accelerated or uses_accelerate(script)):
        return False
    function = script.function(node)
    known = script.cached(_known)
    if function not in known:
        own = [n for n in losses if isinstance(n, ast.Name) and script.function(n) is function]
        known[function] = _names_behind(script, own)
    return not known[function].isdisjoint(_names_behind(script, [node]))


def _known(script: Script) -> dict[FunctionNode | None, frozenset[str]]:
    """Return an empty table: the names behind the losses of each function."""
    return {}


def _names_behind(script: Script, nodes: Iterable[ast.expr]) -> frozenset[str]:
    """Return the names of tensors that `nodes` are computed from on their own device, names among them included."""

    def step(part: ast.expr) -> list[ast.expr]:
        return _values(script, part) if isinstance(part, ast.Name) else _parts(script, part)

    names = (part for part in reach(nodes, step) if isinstance(part, ast.Name))
    return frozenset(name.id for name in names if _values(script, name))


def _values(script: Script, name: ast.Name) -> list[ast.expr]:
    """Return the expressions that may have given `name`; nothing if one is unknown, on the host or not a tensor."""
    values = [_computing(script, binding) for binding in script.reaching(name)]
    return [value for value in values if value is not None] if all(values) else []


def _computing(script: Script, binding: Binding) -> ast.expr | None:
    value = binding.value
    if binding.how not in {"assign", "augment"} or binding.path or value is None:
        return None
    if not isinstance(value, (ast.BinOp, ast.Call, ast.Name, ast.Subscript, ast.UnaryOp)):
        return None
    found = script.value(value)
    is_tensor = not found.kinds or (found.has(TENSOR) and not found.has(HOST))
    return value if is_tensor and not _leaves(value) else None


def _leaves(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and getattr(node.func, "attr", "") in _LEAVES


def _parts(script: Script, node: ast.expr) -> list[ast.expr]:
    """Return what an operation, a method of a tensor or a function of torch computes from."""
    match node:
        case ast.BinOp(left=left, right=right):
            return [left, right]
        case ast.Compare(left=left, comparators=[right]):
            return [left, right]
        case ast.UnaryOp(operand=operand) if not isinstance(node.op, ast.Not):
            return [operand]
        case ast.Subscript(value=whole) if script.value(node).has(TENSOR):
            return [whole]
        case ast.Call(func=func, args=args) if not _leaves(node):
            dotted = script.dotted(func)
            if dotted is not None:
                return args if dotted.startswith("torch.") else []
            if isinstance(func, ast.Attribute) and script.value(node).has(TENSOR):
                return [func.value]
    return []
