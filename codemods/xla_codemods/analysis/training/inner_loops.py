"""Loops that are a part of one step: what they compute is differentiated, or updates weights, around them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..nodes import walk
from .acting import is_called_by_a_step
from .steps import calls_of
from .training import BACKWARD, FORWARD, STEP, Loop

if TYPE_CHECKING:
    from ..script import Script

_HOPS = 3  # functions between a step and the loop over the optimizers


def is_part_of_a_step(script: Script, loop: Loop) -> bool:
    """True if what `loop` computes is differentiated, or updates weights, in the code around it.

    The loop of a meta-learner's own steps, of an attack on the batch, of a penalty: these belong to one graph.
    """
    if any(
        isinstance(k, ast.keyword) and k.arg == "create_graph" and not _is_false(k.value)
        for node in loop.body
        for k in walk(node)
    ):
        if not (script.function(loop.node) is None or _updates_weights(script, loop)):
            return True
    if _gradients_follow(script, loop):
        return True
    by_node = script.training.by_node
    around = (by_node[a] for a in script.ancestors(loop.node) if a in by_node)
    return any(loop.effects & {BACKWARD, STEP} for loop in around) or is_called_by_a_step(
        script, loop
    )


def _gradients_follow(script: Script, loop: Loop) -> bool:
    """True if the function of `loop`, which runs no model, calls `backward` behind it: with gradients of these gradients."""
    if FORWARD in loop.effects:
        return False
    function = script.function(loop.node)
    end = loop.node.end_lineno or 0
    return function is not None and any(
        call.lineno > end and script.training.is_backward(call)
        for call, _ in script.index.calls_of("backward")
        if script.function(call) is function
    )


def _updates_weights(script: Script, loop: Loop) -> bool:
    """True if the loop changes tensors where no gradient sees it: what was differentiated ends there."""
    return any(
        _changes_tensors(node) and (_is_of_data(node) or script.training.is_inference(node))
        for part in loop.body
        for node in walk(part)
    )


def _changes_tensors(node: ast.AST) -> bool:
    """`w -= step`, `w = w - step`, `w.sub_(step)`."""
    if isinstance(node, ast.Call):
        name = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        return name.endswith("_") and not name.endswith("__")
    return isinstance(node, (ast.AugAssign, ast.Assign))


def _is_of_data(node: ast.AST) -> bool:
    """`w.data = ...`, `w.data.sub_(...)`."""
    changed = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        changed = node.func.value
    return isinstance(changed, ast.Attribute) and changed.attr == "data"


def _is_false(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is False


def outermost_places(script: Script, step: ast.Call) -> Iterator[ast.Call]:
    """Yield the calls for which the step is marked: `step`, or the calls of its function in loops over optimizers."""
    yield from _outermost(script, step, _HOPS)


def _outermost(script: Script, place: ast.Call, hops: int) -> Iterator[ast.Call]:
    function = script.function(place)
    if not isinstance(function, ast.FunctionDef) or hops == 0:
        yield place
        return
    calls = calls_of(script, function)
    if not calls or not all(_is_for_each_optimizer(script, call) for call in calls):
        yield place
        return
    for call in calls:
        yield from _outermost(script, call, hops - 1)


def _is_for_each_optimizer(script: Script, call: ast.Call) -> bool:
    return any(
        script.training.is_over_steppers(loop)
        for ancestor in script.ancestors(call)
        if (loop := script.training.by_node.get(ancestor)) is not None
    )
