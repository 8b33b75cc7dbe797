"""Scalers that stay in one module: their uses in other modules stay as well.

Otherwise losses would not be scaled, and gradients still be divided by the scale, or the reverse.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ...frameworks.accelerator import uses_accelerate
from ...once import once
from ...parsed_file import ParsedFile
from ...syntax import is_handed_on, name_of, position
from .creations import MAKERS, creations, is_disabled, maker_names
from .uses import Uses, uses_of_scalers


def handed_on(script: ParsedFile) -> Iterator[ast.expr]:
    """Yield the classes of scalers that are not called here: `make = partial(GradScaler, enabled=amp)`."""
    names = maker_names(script)
    nodes: list[ast.expr] = [
        n for kind in (ast.Name, ast.Attribute) for n, _ in script.index.of(kind)
    ]
    for node in nodes:
        if name_of(node) in names and script.dotted(node) in MAKERS:
            if is_handed_on(node, script.parents):
                yield node


@once
def keeps_scalers(script: ParsedFile) -> bool:
    """True if the scalers that this file makes or uses stay: removed in part, they would lack what the rest asks for."""
    if uses_of_scalers(script).unclear:
        return True
    if next(creations(script), None) is not None:
        return False
    paths = script.project.modules.with_word("GradScaler") & script.project.programs
    return any(script.of_module(path, _keeps_one) for path in sorted(paths))


def _keeps_one(other: ParsedFile) -> bool:
    made = [creation for creation in creations(other) if not is_disabled(creation)]
    if uses_accelerate(other):
        return bool(made) or next(handed_on(other), None) is not None
    return bool(made) and bool(uses_of_scalers(other).unclear)


# What gives something else for gradients that are all multiplied by one number than that number times as much.
_CLIPPING = ("clip_grad_norm_", "clip_grad_norm", "clip_grad_value_", "clip_grads_with_norm_")
_OF_ONE_GRADIENT = ("clamp", "clamp_", "clip", "clip_")


def clipped(script: ParsedFile, uses: Uses) -> Iterator[ast.Call]:
    """Calls that clip gradients which the original has scaled; none where the program unscales any."""
    if script.index.calls_of("unscale_") or script.project.uses_attribute("unscale_"):
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
    if position(first) >= position(then):
        return False
    around = {a: child for child, a in script.upward(first) if isinstance(a, ast.If)}
    for child, ancestor in script.upward(then):
        if isinstance(ancestor, ast.If) and ancestor in around:
            return (child in ancestor.orelse) == (around[ancestor] in ancestor.orelse)
    return True
