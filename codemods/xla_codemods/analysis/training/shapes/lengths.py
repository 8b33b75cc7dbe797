"""Slices of device tensors at the length of each sample: `for i, n in enumerate(lengths): mask[i, n:] = 0`."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ....flow.closure import reach
from ....flow.iterables import iterable_of
from ....patterns import Pattern
from ...devices.specs import last_name
from ...inference.values import ACCEL, ARRAY, BATCH, HOST, TENSOR
from ...nodes import walk
from ...scopes import Binding
from ...script import Script
from ..tensors.computed import computing
from ..tensors.device_tensors import is_device_tensor, may_be_read
from ..tensors.given import is_given
from ..turns import in_steps_and_evaluations

_LENGTHS = Pattern(r"(?:^|_)(?:len|lens|length|lengths)(?:_|$)|lengths$|lens$")


def cut_at_lengths(script: Script) -> Iterator[ast.Subscript | ast.Call]:
    """Yield the slices, and calls of `narrow`, that cut a device tensor at an element of a list or tensor of lengths."""
    if not script.is_trained or not script.source.mentions("len", "lens", "length", "lengths"):
        return
    for node, _ in script.index.of(ast.Subscript):
        parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        slices = [part for part in parts if isinstance(part, ast.Slice)]
        bounds = [bound for part in slices for bound in (part.lower, part.upper) if bound]
        if _is_cut(script, node, node.value, bounds):
            yield node
    for call, _ in script.index.calls_of("narrow"):
        if isinstance(call.func, ast.Attribute) and not script.dotted(call.func):
            if _is_cut(script, call, call.func.value, call.args[1:]):
                yield call


def _is_cut(script: Script, node: ast.expr, whole: ast.expr, bounds: list[ast.expr]) -> bool:
    lengths = [bound for bound in bounds if _is_a_length(script, bound)]
    return (
        bool(lengths)
        and not any(is_device_tensor(script, bound) for bound in lengths)
        and (node in in_steps_and_evaluations(script) or script.function(node) in computing(script))
        and may_be_on_device(script, whole)
    )


def may_be_on_device(script: Script, whole: ast.expr) -> bool:
    """Return True if `whole` is a tensor of the device, or what a step receives and may be one."""
    while isinstance(whole, ast.Subscript):
        whole = whole.value
    kinds = script.value(whole).kinds
    if kinds & {ARRAY, HOST} or (BATCH in kinds and ACCEL not in kinds):
        return False
    return TENSOR in kinds or may_be_read(script, whole) or is_given(script, whole)


def _is_a_length(script: Script, bound: ast.expr) -> bool:
    """True for `n`, `int(n)`, `n.item()` and `lengths[i]`, also through other names."""

    def step(node: ast.expr) -> list[ast.expr]:
        names = [part for part in walk(node) if isinstance(part, ast.Name)]
        return [b.whole for name in names for b in script.reaching(name) if b.whole is not None]

    return any(_is_of_lengths(script, part) for each in reach([bound], step) for part in walk(each))


def _is_of_lengths(script: Script, part: ast.AST) -> bool:
    match part:
        case ast.Subscript(value=owner, slice=ast.Name()):
            return _are_lengths(owner)
        case ast.Name():
            return any(map(_is_an_element, script.reaching(part)))
    return False


def _is_an_element(binding: Binding) -> bool:
    """True for `n` of `for n in lengths`, `for i, n in enumerate(lengths)` and `for x, n in zip(xs, lengths)`."""
    if binding.how != "for" or binding.value is None:
        return False
    return _are_lengths(iterable_of(binding.value, binding.path[1:])[0])


def _are_lengths(node: ast.expr) -> bool:
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        node = node.func.value  # `lengths.cpu().tolist()`
    return _LENGTHS.search(last_name(node) or "") is not None
