"""Sums of Python integers that bound a slice: lengths, offsets and the rest of a tensor."""

from __future__ import annotations

import ast

from ...devices.specs import last_name
from ...syntax import is_size


def is_sum(node: ast.expr, first: ast.expr) -> ast.expr | None:
    """The `n` of `i + n`, where `node` is that and `first` is `i`; also of `i + 1 + n` with `i + 1`, and of
    `(k + 1) * n` with `k * n`.
    """
    match node, first:
        case (
            ast.BinOp(
                left=ast.BinOp(left=one, op=ast.Add(), right=ast.Constant(value=1)),
                op=ast.Mult(),
                right=size,
            ),
            ast.BinOp(left=other, op=ast.Mult(), right=again),
        ) if ast.unparse(one) == ast.unparse(other) and ast.unparse(size) == ast.unparse(again):
            return size
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        if ast.unparse(node.left) == ast.unparse(first):
            return node.right
        if ast.unparse(node.right) == ast.unparse(first):
            return node.left
    return None


def offset_of(start: ast.expr) -> tuple[ast.expr, int]:
    """`i + 1` as `i` and 1."""
    match start:
        case ast.BinOp(left=base, op=ast.Add(), right=ast.Constant(value=int(more))):
            return base, more
    return start, 0


def is_rest(node: ast.expr, source: ast.expr, base: ast.expr, more: int) -> bool:
    """`len(source) - 1 - i`, with at least `more` taken off."""
    terms = _taken_off(node)
    if terms is None:
        return False
    size, taken = terms
    numbers = [t.value for t in taken if isinstance(t, ast.Constant) and isinstance(t.value, int)]
    others = [ast.unparse(t) for t in taken if not isinstance(t, ast.Constant)]
    return _is_size(size, source) and others == [ast.unparse(base)] and sum(numbers) >= more


def leaves_room(stop: ast.expr, source: ast.expr, length: ast.expr, more: int) -> bool:
    """`len(source) - n`, with at least `more - 1` taken off beside: `range` ends before it."""
    terms = _taken_off(stop)
    if terms is None:
        return False
    size, taken = terms
    if not _is_size(size, source):
        return False
    rest = [t for t in taken if ast.unparse(t) != ast.unparse(length)]
    numbers = [t.value for t in rest if isinstance(t, ast.Constant) and isinstance(t.value, int)]
    return len(rest) == len(taken) - 1 and len(numbers) == len(rest) and sum(numbers) >= more - 1


def _taken_off(node: ast.expr) -> tuple[ast.expr, list[ast.expr]] | None:
    """`a - b - c` as `a` and [b, c]."""
    taken: list[ast.expr] = []
    while isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub):
        taken.append(node.right)
        node = node.left
    return (node, taken) if taken else None


def computed_with(call: ast.Call) -> list[ast.expr]:
    """Return the arguments that decide what `call` gives in most turns: not `len(data) - i` of `min(n, len(data) - i)`."""
    is_least = last_name(call.func) == "min"
    return [argument for argument in call.args if not (is_least and _is_the_rest(argument))]


def _is_the_rest(node: ast.expr) -> bool:
    """`len(source) - 1 - i`: what is left behind the place `i`."""
    terms = _taken_off(node)
    return terms is not None and is_size(terms[0])


def _is_size(node: ast.expr, source: ast.expr) -> bool:
    """`len(source)`, `source.size(0)`, `source.shape[0]`."""
    text = ast.unparse(source)
    return ast.unparse(node) in {
        f"len({text})",
        f"{text}.size(0)",
        f"{text}.shape[0]",
        f"{text}.size()[0]",
    }
