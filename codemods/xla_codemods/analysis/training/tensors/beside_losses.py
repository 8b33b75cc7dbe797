"""Tensors that a training step computes from what its loss is computed from: `clip_fraction`, `approx_kl`, an entropy.

Torch computes with tensors of one device alone, so they are where the loss is.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from ...frameworks.accelerator import uses_accelerate
from ...inference.values import HOST, TENSOR

if TYPE_CHECKING:
    from ...scopes import Binding, FunctionNode
    from ...script import Script

# Methods whose results are on the host, or on another device than their tensor.
_LEAVES = frozenset({"cpu", "cuda", "item", "numpy", "size", "stride", "to", "tolist"})
_MOST_NAMES = 6  # through which a tensor is followed


def is_computed_with(script: Script, node: ast.expr, losses: Iterable[ast.expr]) -> bool:
    """Return True if `node` is computed from a name of this function that one of `losses` is computed from, too."""
    if not (script.accelerated or uses_accelerate(script)):
        return False
    function = script.function(node)
    known = script.cached(_known)
    if function not in known:
        known[function] = frozenset(_terms(script, function, losses))
    terms = known[function]
    return bool(terms) and _is_of(script, node, lambda name: name.id in terms, _MOST_NAMES)


def _known(script: Script) -> dict[FunctionNode | None, frozenset[str]]:
    """Return an empty table: the terms of the losses of each function that is asked for."""
    return {}


def _terms(
    script: Script, function: FunctionNode | None, losses: Iterable[ast.expr]
) -> Iterator[str]:
    """Yield the names of tensors that the losses of `function` are computed from, losses included."""
    left = [n for n in losses if isinstance(n, ast.Name) and script.function(n) is function]
    seen: set[str] = set()
    while left:
        name = left.pop()
        values = _values(script, name)
        if name.id in seen or not values:
            continue
        seen.add(name.id)
        yield name.id
        for value in values:
            left += _operands(script, value)


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


def _operands(script: Script, node: ast.expr) -> Iterator[ast.Name]:
    """Yield the names that `node` computes with on their own device."""
    if isinstance(node, ast.Name):
        yield node
    for operand in _parts(script, node):
        yield from _operands(script, operand)


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


def _is_of(script: Script, node: ast.expr, is_term: Callable[[ast.Name], bool], names: int) -> bool:
    """Return True if `node` is computed, on the device, from a name that is a term."""
    if not isinstance(node, ast.Name):
        return any(_is_of(script, part, is_term, names) for part in _parts(script, node))
    values = _values(script, node)
    if not values:
        return False
    return is_term(node) or (
        names > 0 and all(_is_of(script, value, is_term, names - 1) for value in values)
    )
