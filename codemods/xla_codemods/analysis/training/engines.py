"""Functions that are passed to an engine, whose loop over the batches is in another module or in a library."""

from __future__ import annotations

import ast

from ...flow.calls import callers, receivers
from ..loops import FORWARD, GRADIENTS, TRAINING
from ..once import once
from ..script import Script
from ..syntax import unparsed


def is_step_of_an_engine(script: Script, function: ast.FunctionDef) -> bool:
    """Return True for `step` of `Engine(step)`: it takes one step outside of loops, and nothing here calls it."""
    own = (step.call for step in script.training.steps if script.function(step.call) is function)
    is_one = any(script.training.loop_of(call) is None for call in own)
    return is_one and bool(receivers(script, function)) and not callers(script, function)


@once
def evaluations_of_engines(script: Script) -> list[ast.FunctionDef]:
    """Return the functions without gradients that are passed to what receives training steps, too: `Engine(evaluate)`."""
    functions = [function for function, _ in script.index.of(ast.FunctionDef)]
    steps = (function for function in functions if is_step_of_an_engine(script, function))
    engines = {unparsed(call.func) for step in steps for call in receivers(script, step)}
    passed = [f for f in functions if engines & {unparsed(c.func) for c in receivers(script, f)}]
    return [f for f in passed if _is_evaluation(script, f) and not callers(script, f)]


def _is_evaluation(script: Script, function: ast.FunctionDef) -> bool:
    effects = script.training.function_effects(function)
    is_run = FORWARD in effects and not effects & {*TRAINING, GRADIENTS}
    return is_run and script.training.is_inference(function.body[-1])
