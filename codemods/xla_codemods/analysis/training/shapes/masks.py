"""Masks that select elements: which data decide them, and which are constant, such as `~torch.eye(n, dtype=torch.bool)`."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from functools import partial

from ....flow.closure import all_ends, ends, without_fault
from ....flow.containers import held
from ....flow.edges import known_sources, sources
from ...devices.specs import last_name
from ...inference.values import ACCEL, NONE, TENSOR
from ...nodes import walk
from ...script import Script
from ...syntax import keyword, name_of
from ..tensors.device_tensors import may_be_read
from ..tensors.given import KEEPING, is_given

_METHODS = frozenset(
    "bool eq ge gt isfinite isinf isnan le logical_and logical_not logical_or lt ne".split()
)
_OF_ELEMENTS = frozenset({"abs", "float", "long", "sign"})
_JOINING = (ast.BitAnd, ast.BitOr, ast.BitXor)
_ASKING = (ast.Is, ast.IsNot, ast.In, ast.NotIn)


def is_mask(script: Script, node: ast.expr) -> bool:
    """Return True if `node` is surely a tensor of truth values."""
    parts, is_truth = partial(_mask_parts, script), partial(_is_truth, script)
    if all_ends([node], parts, is_truth):
        return True  # made on the device; others may have been moved there
    return all_ends([node], parts, partial(_has_truth_values, script)) and may_be_read(script, node)


def _mask_parts(script: Script, node: ast.expr) -> Sequence[ast.expr]:
    """Return the expressions that all have to be masks, if `node` is one."""
    match node:
        case ast.UnaryOp(op=ast.Invert(), operand=operand):
            return [operand]
        case ast.BinOp(op=ast.BitAnd() | ast.BitOr() | ast.BitXor(), left=left, right=right):
            return [left, right]
        case ast.Call(func=ast.Attribute(attr=name, value=owner)) if name in KEEPING:
            return [] if _is_truth(script, node) else [owner]
        case ast.Call(func=ast.Attribute(attr="all" | "any", value=owner), args=[_]):
            return [owner]  # of each row
        case ast.Call():
            return [] if _is_truth(script, node) else sources(script, node)
        case ast.Subscript(value=whole, slice=ast.Constant(value=str(key))):
            return held(script, whole, key) or [whole]
        case ast.Subscript(value=whole) | ast.Attribute(value=whole, attr="T" | "data" | "mT"):
            return [whole]
        case ast.Name():
            return known_sources(script, node, _JOINING)
        case ast.Attribute():
            return sources(script, node)
    return []


def _is_truth(script: Script, node: ast.expr) -> bool:
    match node:
        case ast.Compare(ops=ops, left=left, comparators=others):
            return not any(isinstance(op, _ASKING) for op in ops) and any(
                may_be_read(script, side) or is_given(script, side, KEEPING | _OF_ELEMENTS)
                for side in (left, *others)
            )
        case ast.Call(func=ast.Attribute(attr=name, value=owner)) if name in _METHODS:
            return may_be_read(script, node) or is_given(script, owner)
    return _has_truth_values(script, node) and may_be_read(script, node)


def is_called_a_mask(script: Script, node: ast.expr) -> bool:
    """`data.train_mask`, `batch["mask"]`: by name, if nothing else is known; a parameter `mask`, also if it is a tensor."""
    allowed = {NONE} if isinstance(node, ast.Attribute) else {NONE, TENSOR, ACCEL}
    if not _is_named_mask(script, node) or script.value(node).kinds - allowed:
        return False
    return all(
        _is_named_mask(script, each) or is_mask(script, each) or not script.value(each).kinds
        for each in ends([node], partial(made_of, script))
    )


def made_of(script: Script, node: ast.expr) -> Sequence[ast.expr]:
    """Return the sources of `node`, also through `node.cuda()`."""
    match node:
        case ast.Call(func=ast.Attribute(attr=name, value=owner)) if name in KEEPING:
            return [owner]
    return sources(script, node)


def _is_named_mask(script: Script, node: ast.expr) -> bool:
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
        if isinstance(node.slice.value, str) and name_of(node.value).endswith("masks"):
            return True
    name = last_name(node)
    if name is None or not re.search(r"(?:^|_)mask$", name):
        return False
    if not isinstance(node, ast.Name):
        return True
    reaching = script.reaching(node)
    return bool(reaching) and all(b.how in {"parameter", "for"} or b.path for b in reaching)


def is_same_mask(one: ast.Subscript, other: ast.Subscript) -> bool:
    """Return True for `dist[mask]` and `distance[mask]`: equal text, without calls of unknown functions."""
    calls = (node.func for node in walk(one.slice) if isinstance(node, ast.Call))
    is_pure = all(isinstance(f, ast.Attribute) and f.attr in _METHODS | KEEPING for f in calls)
    return is_pure and ast.dump(one.slice) == ast.dump(other.slice)


def is_about(mask: ast.expr, tensor: ast.expr) -> bool:
    """True if `mask` compares `tensor` itself with something, so that both have one shape."""
    if not isinstance(tensor, (ast.Name, ast.Attribute)):
        return False
    text = ast.unparse(tensor)
    match mask:
        case ast.Compare(left=left, comparators=[right]):
            return text in {ast.unparse(left), ast.unparse(right)}
        case ast.Call(func=ast.Attribute(value=owner, attr=name), args=args):
            if name in {"isnan", "isinf", "isfinite"}:
                return text in {ast.unparse(owner), *(ast.unparse(a) for a in args)}
    return False


_MADE = frozenset({"arange", "eye", "full", "ones", "tril_indices", "triu_indices", "zeros"})
_COMPUTED = frozenset({"flip", "logical_and", "logical_not", "logical_or", "roll", "tril", "triu"})
_BOOLS = frozenset({"torch.bool", "torch.BoolTensor"})
_MASK_METHODS = KEEPING | {"bool", "fill_diagonal_", "logical_not", "tril", "triu"}


def is_constant_mask(script: Script, node: ast.expr) -> bool:
    """Return True if `node` is a tensor of truth values that depends on sizes alone."""
    is_constant = without_fault([node], partial(_sizes_alone, script))
    return is_constant and _has_truth_values(script, node)


def _has_truth_values(script: Script, node: ast.expr) -> bool:
    """Return True for `torch.eye(8, dtype=torch.bool).to(device)` and `x > 0`, on any device."""
    return without_fault([node], partial(_truth_values, script))


def _sizes_alone(script: Script, node: ast.expr) -> list[ast.expr] | None:
    """Return what decides about the elements of `node`; None if data may do so."""
    match node:
        case ast.Constant():
            return []
        case ast.UnaryOp(operand=operand):
            return [operand]
        case ast.BinOp(left=left, right=right) | ast.Compare(left=left, comparators=[right]):
            return [left, right]
        case ast.Call(func=func, args=args):
            home, _, name = (script.dotted(func) or "").rpartition(".")
            if home == "torch" and name in _MADE:
                return []
            if home == "torch" and name in _COMPUTED:
                return args[:1] or None
            is_method = isinstance(func, ast.Attribute) and func.attr in _MASK_METHODS
            return [func.value] if is_method and isinstance(func, ast.Attribute) else None
        case ast.Subscript(value=whole, slice=ast.Tuple() | ast.Constant() | ast.Slice()):
            return [whole]
        case ast.Name() | ast.Attribute():
            return _values(script, node)
    return None


def _truth_values(script: Script, node: ast.expr) -> list[ast.expr] | None:
    """Return what decides if `node` has truth values; None if nothing shows it."""
    match node:
        case ast.Compare(ops=ops):
            return None if any(isinstance(op, _ASKING) for op in ops) else []
        case ast.UnaryOp(op=ast.Invert(), operand=operand):
            return [operand]
        case ast.BinOp(op=ast.BitAnd() | ast.BitOr(), left=left, right=right):
            return [left, right]
        case ast.Call(func=func, args=args):
            named = [keyword(node, "dtype"), *args]
            if not _BOOLS.isdisjoint(script.dotted(part) for part in named if part is not None):
                return []
            name = name_of(func)
            if name in _METHODS:
                return []
            if script.dotted(func):
                return (args[:1] or None) if name in _COMPUTED else None
            is_method = isinstance(func, ast.Attribute) and name in _MASK_METHODS
            return [func.value] if is_method and isinstance(func, ast.Attribute) else None
        case ast.Subscript(value=whole):
            return [whole]
        case ast.Name() | ast.Attribute():
            return _values(script, node)
    return None


def _values(script: Script, node: ast.Name | ast.Attribute) -> list[ast.expr] | None:
    """Return the values that `node` may have; None if one is not written out."""
    if isinstance(node, ast.Name):
        reaching = script.reaching(node)
        values = [b.value for b in reaching if b.how == "assign" and not b.path and b.value]
        return values if values and len(values) == len(reaching) else None
    values = [statement.value for statement, _ in script.index.assignments(ast.unparse(node))]
    for call, _ in script.index.calls_of("register_buffer"):
        match call.args:
            case [ast.Constant(value=name), value, *_] if name == node.attr:
                values.append(value)
    return values or None
