"""The script's functions that a framework calls in each training step, from the framework's own loop."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ..nodes import walk
from ..once import once
from ..parsed_file import ParsedFile
from ..projects.callees import derives
from .arguments import TRAINERS
from .lightning_modules import is_its_module

# Methods of transformers' Trainer that receive a batch on the device.
HOOKS_OF_BATCHES = frozenset({"compute_loss", "training_step"})
_OF_THEIR_CALLBACKS = frozenset(
    "on_step_begin on_substep_end on_pre_optimizer_step on_optimizer_step on_step_end".split()
)
_OF_LIGHTNING = frozenset(
    "training_step optimizer_step on_train_batch_start on_train_batch_end on_before_backward on_after_backward "
    "on_before_optimizer_step on_before_zero_grad configure_gradient_clipping".split()
)
_LIGHTNINGS = ("lightning.", "pytorch_lightning.")
_EVENTS = frozenset(
    "ITERATION_STARTED ITERATION_COMPLETED GET_BATCH_STARTED GET_BATCH_COMPLETED".split()
)
_ENGINES = frozenset({"ignite.engine.Engine", "ignite.engine.engine.Engine"})
_NAMES = tuple(HOOKS_OF_BATCHES | _OF_THEIR_CALLBACKS | _OF_LIGHTNING)


@once
def called_in_steps(script: ParsedFile) -> frozenset[ast.FunctionDef]:
    """Methods of Trainers, LightningModules and callbacks, and what ignite's engines run. Found once for a file."""
    if not script.source.mentions(*_NAMES, "ignite"):
        return frozenset()
    return frozenset((*_methods(script), *_of_engines(script)))


def _methods(script: ParsedFile) -> Iterator[ast.FunctionDef]:
    for definition, _ in script.index.of(ast.ClassDef):
        methods = [s for s in definition.body if isinstance(s, ast.FunctionDef)]
        names = {method.name for method in methods}
        for called, is_one in _KINDS:
            if names & called and is_one(script, definition):
                yield from (method for method in methods if method.name in called)


def _is_a_trainer(script: ParsedFile, definition: ast.ClassDef) -> bool:
    return derives(script, definition, TRAINERS.__contains__)


def _is_a_callback(script: ParsedFile, definition: ast.ClassDef) -> bool:
    return derives(script, definition, _is_a_trainers_callback)


def _is_of_lightning(script: ParsedFile, definition: ast.ClassDef) -> bool:
    return is_its_module(script, definition) or derives(script, definition, _is_lightnings_callback)


def _is_a_trainers_callback(dotted: str) -> bool:
    return dotted.startswith("transformers.") and dotted.endswith("TrainerCallback")


def _is_lightnings_callback(dotted: str) -> bool:
    return dotted.startswith(_LIGHTNINGS) and dotted.endswith("Callback")


def _of_engines(script: ParsedFile) -> Iterator[ast.FunctionDef]:
    """`Engine(update)`, and `@trainer.on(Events.ITERATION_COMPLETED)`, not of every n-th."""
    for call, _ in script.index.of(ast.Call):
        if script.dotted(call.func) in _ENGINES and call.args:
            found = script.value(call.args[0]).definition
            if isinstance(found, ast.FunctionDef):
                yield found
    for function, _ in script.index.of(ast.FunctionDef):
        if any(_is_of_each_step(script, decorator) for decorator in function.decorator_list):
            yield function


def _is_of_each_step(script: ParsedFile, decorator: ast.expr) -> bool:
    match decorator:
        case ast.Call(func=ast.Attribute(attr="on"), args=[event, *_]):
            return any(
                isinstance(n, ast.Attribute)
                and n.attr in _EVENTS
                and (script.dotted(n) or "").startswith("ignite.")
                for n in walk(event)
            ) and not any(isinstance(n, ast.Call) for n in walk(event))
    return False


_KINDS = (
    (HOOKS_OF_BATCHES, _is_a_trainer),
    (_OF_THEIR_CALLBACKS, _is_a_callback),
    (_OF_LIGHTNING, _is_of_lightning),
)
