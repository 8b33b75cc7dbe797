"""Tests of tensors, and functions that test each of several: `any(xs)`, `sorted(xs, key=f)`, `filter(f, xs)`."""

from __future__ import annotations

import ast

from ...script import Script
from ...syntax import keyword, name_of
from ..tensors.device_tensors import (
    are_device_tensors,
    holds_device_tensors,
    is_device_tensor,
    may_be_read,
)
from ..tensors.given import is_one_number_of_what_is_given
from ..tensors.returned_tensors import tensor_arguments

_ORDERS = (ast.Gt, ast.GtE, ast.Lt, ast.LtE)
_TESTING = frozenset({"isfinite", "isinf", "isnan"})
_OF_ALL = frozenset({"all", "any", "max", "min", "sorted"})
_OF_SOME = frozenset({"heapq.nlargest", "heapq.nsmallest"})


def asks(script: Script, test: ast.expr) -> bool:
    """True if the truth of `test` is that of a tensor."""
    if isinstance(test, ast.BoolOp):
        return any(asks(script, value) for value in test.values)
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return asks(script, test.operand)
    if isinstance(test, ast.Compare):
        if any(isinstance(op, (ast.Is, ast.IsNot, ast.In, ast.NotIn)) for op in test.ops):
            return False
        is_order = all(isinstance(op, _ORDERS) for op in test.ops)
        sides = (test.left, *test.comparators)
        return any(_is_read(script, s) or (is_order and _is_returned(script, s)) for s in sides)
    return _is_read(script, test)


def _is_returned(script: Script, node: ast.expr) -> bool:
    """True if `node`, whose size is compared, is a tensor on the device that a function of any module computes."""
    return bool(tensor_arguments(script, node)) and may_be_read(script, node)


def _is_read(script: Script, node: ast.expr) -> bool:
    """True if the truth of `node`, or what it is compared with, is read from the device."""
    if is_device_tensor(script, node) or is_one_number_of_what_is_given(script, node):
        return True
    tested = _tested_number(script, node)
    return tested is not None and may_be_read(script, tested)


def _tested_number(script: Script, node: ast.expr) -> ast.expr | None:
    """Return `loss` of `torch.isnan(loss)` and `loss.isfinite().all()`, which only a tensor can be."""
    match node:
        case ast.Call(func=ast.Attribute(value=owner, attr="all" | "any"), args=[]):
            return _tested_number(script, owner)
        case ast.Call(func=ast.Attribute(value=owner, attr=name), args=[]) if name in _TESTING:
            return owner
        case ast.Call(func=func, args=[tensor]):
            library, _, name = (script.dotted(func) or "").rpartition(".")
            return tensor if library == "torch" and name in _TESTING else None
    return None


def tests_each(script: Script, call: ast.Call) -> bool:
    """Return True if `call` is of a builtin that tests or compares several tensors."""
    func, key = call.func, keyword(call, "key")
    match func, call.args:
        case _, [_, several] if script.dotted(func) in _OF_SOME:
            return _gives_tensors(script, key, several)
        case ast.Attribute(attr="sort", value=several), []:
            return not script.value(several).kinds and _gives_tensors(script, key, several)
        case ast.Name(id=name), _ if script.index.scope(func).find(name) is not None:
            return False
        case ast.Name(id=name), [several] if name in _OF_ALL:
            return _gives_tensors(script, key, several)
        case ast.Name(id="filter"), [function, several]:
            return _gives_tensors(script, function, several)
    return False


def _gives_tensors(script: Script, function: ast.expr | None, several: ast.expr) -> bool:
    """Return True if `function` gives a tensor for the elements of `several`; without one, if these are tensors."""
    match function:
        case None | ast.Constant(value=None):
            return _are_tensors(script, several)
        case ast.Lambda(body=body):
            return any(asks(script, part) for part in elements_of(body) or [body])
        case ast.Attribute(value=owner, attr="get" | "__getitem__"):
            return are_device_tensors(script, owner, script.inference.stored(owner))
        case ast.Call(func=func, args=[ast.Constant(value=int(place))]):
            element = script.value(several).element
            parts = (element.items if element is not None else None) or ()
            part = parts[place] if name_of(func) == "itemgetter" and place < len(parts) else None
            return part is not None and are_device_tensors(script, several, part)
    is_torchs = (script.dotted(function) or "").startswith("torch.")
    return is_torchs and _are_tensors(script, several)


def _are_tensors(script: Script, several: ast.expr) -> bool:
    """Return True if `several` has a tensor that is tested: `x > 1 for x in xs`, `[a, b]`, `map(torch.isnan, xs)`."""
    match several:
        case ast.GeneratorExp(elt=element) | ast.SetComp(elt=element):
            return asks(script, element)
        case ast.Call(func=ast.Name(id="map"), args=[function, inner]):
            return _gives_tensors(script, function, inner)
    parts = elements_of(several) or [several]
    return any(asks(script, part) or holds_device_tensors(script, part) for part in parts)


def elements_of(given: ast.expr) -> list[ast.expr]:
    """`[a, b]`, `[x[i] for i in ...]`, and lists of such."""
    match given:
        case ast.List(elts=parts) | ast.Tuple(elts=parts):
            return [inner for part in parts for inner in (elements_of(part) or [part])]
        case ast.ListComp(elt=element):
            return elements_of(element) or [element]
    return []
