"""Loops that act: models run in them without gradients, and what comes is collected, as in reinforcement learning."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from typing import TYPE_CHECKING

from .training import BACKWARD, FORWARD, STEP, Loop, outside_loops

if TYPE_CHECKING:
    from ..script import Script


def acts(script: Script, loop: Loop) -> bool:
    """True if models run in each turn of `loop`, and there without gradients alone."""
    training = script.training
    if not training.has_inference:
        return False
    runs = _forwards(script, loop.body)
    return all(training.is_inference(call) or _predicting(script, call) for call in runs)


def is_called_by_a_step(script: Script, loop: Loop) -> bool:
    """True if a loop that trains calls the function that `loop` stands in."""
    function = script.function(loop.node)
    if function is None:
        return False
    return any(
        _trains(script, around.node)
        for call, _ in script.index.calls_of(function.name)
        if (around := script.training.loop_of(call)) is not None
    )


def _trains(script: Script, node: ast.AST) -> bool:
    loop = script.training.by_node.get(node)
    return loop is not None and bool(loop.effects & {BACKWARD, STEP})


def _forwards(script: Script, body: Iterable[ast.AST]) -> list[ast.Call]:
    return [
        node
        for node in outside_loops(body)
        if isinstance(node, ast.Call) and FORWARD in script.training.call_effects(node)
    ]


def _predicts(script: Script, body: Iterable[ast.AST]) -> bool:
    runs = _forwards(script, body)
    return bool(runs) and all(script.training.is_inference(call) for call in runs)


def _predicting(script: Script, call: ast.Call) -> bool:
    """True if `call` calls a function of this file that runs its models without gradients."""
    method = script.local_method(call.func, script.index.scope(call))
    function = method or script.value(call.func).definition
    return isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)) and _predicts(
        script, function.body
    )
