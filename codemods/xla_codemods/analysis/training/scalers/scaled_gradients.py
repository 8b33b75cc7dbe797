"""Code that uses gradients while they are scaled: clipping before `scaler.step`, without `unscale_` before it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from .uses import Uses

if TYPE_CHECKING:
    from ...parsed_file import ParsedFile

# What gives something else for gradients that are all multiplied by one number than that number times as much.
_CLIPPING = ("clip_grad_norm_", "clip_grad_norm", "clip_grad_value_", "clip_grads_with_norm_")
_OF_ONE_GRADIENT = ("clamp", "clamp_", "clip", "clip_")


def clipped(script: ParsedFile, uses: Uses) -> Iterator[ast.Call]:
    """Calls that clip gradients which the original has scaled; none where the program unscales any."""
    if script.index.calls_of("unscale_"):
        return
    if script.project is not None and script.project.uses_attribute("unscale_"):
        return
    for call in _clippings(script):
        home = script.function(call)
        steps = [step for step in uses.changes.steps if script.function(step) is home]
        losses = [scaled for scaled in uses.changes.replaced if script.function(scaled) is home]
        if any(_is_on_the_way(script, scaled, call) for scaled in losses):
            if any(_is_on_the_way(script, call, step) for step in steps):
                yield call


def _clippings(script: ParsedFile) -> Iterator[ast.Call]:
    for name in _CLIPPING:
        yield from (call for call, _ in script.index.calls_of(name))
    for name in _OF_ONE_GRADIENT:
        for call, _ in script.index.calls_of(name):
            owner = call.func.value if isinstance(call.func, ast.Attribute) else call
            if isinstance(owner, ast.Attribute) and owner.attr == "data":
                owner = owner.value
            if isinstance(owner, ast.Attribute) and owner.attr == "grad":
                yield call


def _is_on_the_way(script: ParsedFile, first: ast.expr, then: ast.expr) -> bool:
    """True if `first` stands before `then`, and not in the other branch of an `if`."""
    if (first.lineno, first.col_offset) >= (then.lineno, then.col_offset):
        return False
    around = {a: child for a, child in _ancestry(script, first) if isinstance(a, ast.If)}
    for ancestor, child in _ancestry(script, then):
        if isinstance(ancestor, ast.If) and ancestor in around:
            return (child in ancestor.orelse) == (around[ancestor] in ancestor.orelse)
    return True


def _ancestry(script: ParsedFile, node: ast.AST) -> Iterator[tuple[ast.AST, ast.AST]]:
    """The nodes around `node`, each with that child of it which holds `node`."""
    child = node
    for ancestor in script.ancestors(node):
        yield ancestor, child
        child = ancestor
