"""Where a script trains and evaluates: its loops, what drives them, and where the optimizer steps.

A loop is judged by what stands in it outside inner loops and definitions, calls of local functions included:
the loop over epochs that calls `train_one_epoch` is not the one that steps; the loop inside that function is.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import NamedTuple

from ...flow.by_text import run_by_text
from ...flow.calls import callers
from ...flow.closure import all_ends
from ...patterns import Pattern
from ..frameworks.lightning_modules import is_lightnings
from ..inference import library_types
from ..inference.values import ACCELERATOR, MODULE, SCALER, TENSOR
from ..loops import (
    BACKWARD,
    ELSEWHERE,
    FORWARD,
    GRADIENTS,
    MARK,
    STEP,
    TRAINING,
    LoopNode,
    body_of,
    is_called_a_model,
    outside_loops,
)
from ..nodes import DEFINITIONS, FUNCTIONS, LOOPS, walk
from ..optimizers import is_optimizer, is_scaler, is_scaling_step, scaling_steps
from ..parsed_file import ParsedFile
from ..scopes import FunctionNode
from ..syntax import is_literal, keyword, name_of
from .batches import Batches
from .elsewhere import (
    computes_gradients_elsewhere,
    may_compute_gradients_elsewhere,
    runs_a_passed_model,
)
from .loaders import Driver, Feeding
from .steps import is_element_of, is_marked_elsewhere, steps_its_elements, takes_only_a_closure

_MARKS = frozenset(
    {
        f"{library_types.RUNTIME}.mark_step",
        f"{library_types.RUNTIME}.marked_step",
        "torch_xla.step",
        "torch_xla.sync",
        "torch_xla.core.xla_model.mark_step",
        "torch_xla.core.xla_model.optimizer_step",
    }
)
_RUNTIME_STEPS = frozenset(
    {f"{library_types.RUNTIME}.optimizer_step", "torch_xla.core.xla_model.optimizer_step"}
)


class Step(NamedTuple):
    """One optimizer step: the call, and the optimizer it steps; None if its class overrides the step."""

    call: ast.Call
    optimizer: ast.expr | None
    migrated: bool = False  # already through a runtime
    scaled: bool = False  # through a GradScaler

    @property
    def stepped(self) -> ast.expr:
        """The optimizer, or what stands for it."""
        assert isinstance(self.call.func, ast.Attribute)
        return self.optimizer or self.call.func.value


class Loop:
    """One loop with its effects."""

    def __init__(self, node: LoopNode, training: Training) -> None:
        self.node = node
        self.training = training
        self.is_statement = isinstance(node, LOOPS)

    @cached_property
    def body(self) -> Sequence[ast.AST]:
        """What runs in each iteration."""
        return body_of(self.node)

    @cached_property
    def iterable(self) -> ast.expr | None:
        """What a `for` iterates."""
        if isinstance(self.node, (ast.ListComp, ast.GeneratorExp)):
            return self.node.generators[0].iter
        return None if isinstance(self.node, ast.While) else self.node.iter

    @cached_property
    def effects(self) -> frozenset[str]:
        """What happens in one iteration, outside inner loops."""
        return self.training.effects_of(self.body)

    @cached_property
    def drivers(self) -> list[Driver]:
        """What feeds it: one for `for x in loader`, several for `zip`, none for `range` and `while`."""
        found: list[Driver] = []
        if self.iterable is not None:
            found += self.training.feeding.drivers(self.iterable)
        if not found and self.is_statement:
            found += self.training.feeding.next_drivers(self)
        return found

    @cached_property
    def fed(self) -> bool:
        """True if a device loader feeds it, or is put around its loader: it then marks the steps."""
        return (
            bool(self.drivers)
            and all(
                self.training.feeding.is_device_loader(d) or self.training.feeding.wraps(self, d)
                for d in self.drivers
            )
            and not any(d.cached for d in self.drivers)
        )


class Training:
    """The loops and steps of one script."""

    def __init__(self, script: ParsedFile) -> None:
        self.script = script
        self.batches = Batches(script)
        self._effects: dict[ast.AST, frozenset[str]] = {}
        self.feeding = Feeding(
            script, self.batches, lambda s, body: s.cached(Training).effects_of(body)
        )

    @cached_property
    def loops(self) -> list[Loop]:
        """Every loop in source order, and every comprehension that calls something."""
        index = self.script.index
        made: list[ast.ListComp | ast.GeneratorExp] = [n for n, _ in index.of(ast.ListComp)]
        made += [node for node, _ in index.of(ast.GeneratorExp)]
        found: list[LoopNode] = []
        found += [n for n in made if any(isinstance(c, ast.Call) for c in walk(n.elt))]
        found += [node for node, _ in index.of(ast.For)]
        found += [node for node, _ in index.of(ast.AsyncFor)]
        found += [node for node, _ in index.of(ast.While)]
        return [Loop(node, self) for node in sorted(found, key=lambda node: node.lineno)]

    @cached_property
    def by_node(self) -> dict[ast.AST, Loop]:
        """Loops by their statement."""
        return {loop.node: loop for loop in self.loops}

    @cached_property
    def steps(self) -> list[Step]:
        """Every optimizer step in the file, in source order."""
        return [step for call, _ in self.script.index.of(ast.Call) if (step := self.step(call))]

    @cached_property
    def _steps_by_call(self) -> dict[ast.Call, Step]:
        return {step.call: step for step in self.steps}

    def step(self, call: ast.Call) -> Step | None:
        """`call` as an optimizer step, if it is one."""
        func = call.func
        if not (isinstance(func, ast.Attribute) and func.attr in {"step", "optimizer_step"}):
            return None
        dotted = self.script.dotted(func)
        if dotted is not None:
            optimizer = call.args[0] if call.args else None
            return Step(call, optimizer, migrated=True) if dotted in _RUNTIME_STEPS else None
        if is_lightnings(self.script, call):
            return None  # `self.optimizers()` gives Lightning's own, which reduce and mark
        if func.attr != "step":
            return None
        owner = func.value
        scaled = is_scaler(self.script, owner)
        if not scaled and not is_optimizer(self.script, owner):
            return None
        if is_marked_elsewhere(self.script, call, owner):
            return None
        if scaled:
            optimizer = call.args[0] if call.args else keyword(call, "optimizer")
            return Step(call, optimizer, scaled=True)
        is_torchs = takes_only_a_closure(self.script, call, owner)
        is_torchs = is_torchs and not _is_unpacked(self.script, call)
        return Step(call, owner if is_torchs else None)

    @cached_property
    def may_step(self) -> bool:
        """True if anything that the file runs may compute gradients by `backward`, or step an optimizer."""
        return bool(
            "backward" in self.script.source.names
            or self.steps
            or scaling_steps(self.script)
            or self.script.cached(may_compute_gradients_elsewhere)
        )

    # Loops around a place.

    def loop_of(self, node: ast.AST) -> Loop | None:
        """Return the innermost loop of the same function around `node`, except loops over the optimizers themselves."""
        for ancestor in self.script.ancestors(node):
            if isinstance(ancestor, DEFINITIONS):
                return None
            loop = self.by_node.get(ancestor)
            if loop is not None and loop.is_statement and not self.is_over_steppers(loop):
                return loop
        return None

    def is_over_steppers(self, loop: Loop | None) -> bool:
        """`for optimizer in optimizers: optimizer.step()` steps once per element, not once per batch."""
        if loop is None or not isinstance(loop.node, ast.For) or BACKWARD in loop.effects:
            return False
        return any(
            loop.node in self.script.ancestors(step.call)
            and is_element_of(self.script, loop.node, step.stepped)
            for step in self.steps
        ) or steps_its_elements(self.script, loop.node, loop.body, (s.stepped for s in self.steps))

    def anchor(self, node: ast.AST, owner: ast.AST) -> ast.stmt:
        """The outermost statement in `owner` (a loop, function or module) that holds `node` and that the program
        runs on from: not one whose block is left by `return`, `break` or `continue` behind `node`.
        """
        statement = self.script.statement(node)
        while True:
            parent = self.script.parents.get(statement)
            if parent is owner or parent is None or _leaves(self.script.block(statement)):
                return statement
            statement = self.script.statement(parent)

    # Effects.

    def effects_of(self, body: Iterable[ast.AST]) -> frozenset[str]:
        """What running these statements once does, outside loops and definitions in them."""
        found: set[str] = set()
        for node in outside_loops(body):
            kind = type(node)
            if kind is ast.Call:
                found |= self.call_effects(node)  # type: ignore[arg-type]
            elif kind is ast.For and self.is_over_steppers(self.by_node.get(node)):
                found.add(STEP)
        return frozenset(found)

    def function_effects(self, function: FunctionNode) -> frozenset[str]:
        """What one call of `function` does, outside its loops."""
        if function not in self._effects:
            self._effects[function] = frozenset()  # recursion ends here
            self._effects[function] = self.effects_of(function.body)
        return self._effects[function]

    def call_effects(self, call: ast.Call) -> frozenset[str]:
        """What `call` does, outside loops of what it calls."""
        func = call.func
        if call in self._steps_by_call:
            return frozenset({STEP})
        dotted = self.script.dotted(func)
        if dotted in _MARKS:
            return frozenset({MARK})
        if isinstance(func, ast.Attribute) and func.attr == "backward" and self.is_backward(call):
            return frozenset({BACKWARD})
        if dotted == "torch.autograd.backward":
            return frozenset({BACKWARD})
        if dotted == "torch.autograd.grad" or self._is_of_gradients(func):
            return frozenset({GRADIENTS})
        if dotted in library_types.FUNCTIONAL_CALLS:
            return frozenset({FORWARD})
        if dotted is not None:
            is_run = runs_a_passed_model(self.script, call, self._is_model)
            return frozenset({FORWARD}) if is_run else self._effects_elsewhere(call)
        function = self.script.function_of(func)
        by_text = run_by_text(self.script, call)
        if by_text or (function is not None and not self.script.is_module(func)):
            run = [function, *by_text]
            return frozenset().union(*(self.function_effects(each) for each in run if each))
        if is_scaling_step(self.script, call):
            return frozenset({BACKWARD, STEP})
        forward = {FORWARD} if self.is_forward(call) else set()
        return self._effects_elsewhere(call) | forward

    def _effects_elsewhere(self, call: ast.Call) -> frozenset[str]:
        is_training = computes_gradients_elsewhere(self.script, call)
        return frozenset({ELSEWHERE}) if is_training else frozenset()

    @cached_property
    def may_take_gradients(self) -> bool:
        """True if the file may have `torch.autograd.grad`, or functions that `torch.func` makes: by its text."""
        source = self.script.source
        return source.mentions("autograd", "functorch") or "func" in source.names

    def _is_of_gradients(self, func: ast.expr) -> bool:
        """True if `func` is what `torch.func.grad` has made: `grad(loss_fn)(params)`, also by a name."""
        if not self.may_take_gradients:
            return False
        func = self.script.only_value(func) or func
        while isinstance(func, ast.Call):
            dotted = self.script.dotted(func.func)
            if dotted in _OF_GRADIENTS:
                return True
            if dotted not in _AROUND or not func.args:  # vmap(grad(loss_fn), in_dims=...)
                return False
            func = func.args[0]
        return False

    def is_backward(self, call: ast.Call) -> bool:
        """True if `x.backward()` is a tensor's (or accelerate's, or an engine's) and not a local method."""
        assert isinstance(call.func, ast.Attribute)
        owner = call.func.value
        if isinstance(owner, ast.Name) and owner.id in {"self", "ctx", "cls"}:
            return False
        value = self.script.value(owner)
        return (
            (value.definition is None and not library_types.is_of_others(value))
            or value.has(TENSOR)
            or value.has(ACCELERATOR)
            or value.has(MODULE)
        )

    def is_forward(self, call: ast.Call) -> bool:
        """True if `call` runs a model."""
        func = call.func
        if isinstance(func, ast.Attribute) and func.attr in _RUNS:
            func = func.value
        value = self.script.value(func)
        if value.has(MODULE):
            return True
        if value.kinds or value.definition is not None:
            return False
        name = name_of(func)
        if is_called_a_model(func):
            return not _ON_MODELS.match(name)
        if isinstance(func, ast.Name) and func.id in _BUILTINS and not self.script.bindings(func):
            return False
        if _ACCESSOR.match(name):
            return False
        given = [*call.args, *(k.value for k in call.keywords)]
        return len(given) > 1 and any(self._is_model(a) for a in given)

    def _is_model(self, node: ast.expr) -> bool:
        """Return True if a model is passed on: `sample_step(model, x)` runs it."""
        value = self.script.value(node)
        return value.has(MODULE) or (not value.kinds and is_called_a_model(node))

    @cached_property
    def moves_of_device_loaders(self) -> frozenset[ast.AST]:
        """Calls that move what a device loader has moved already, so how they copy does not matter."""
        return frozenset(
            node
            for loop in self.loops
            if loop.fed
            for move in self.batches.flow(loop.node).moves
            for node in walk(move)
            if isinstance(node, ast.Call)
        )

    @cached_property
    def moves_left_to_loops(self) -> frozenset[ast.Call]:
        """Moves in loading that a device loader of this file takes over. Of loops in other files nothing is known."""
        feeding = self.feeding
        if not feeding.moves_in_loading or not any(loop.fed for loop in self.loops):
            return frozenset()
        if all(self.batches.flow(loop.node).moved for loop in self.loops if loop.drivers):
            return frozenset(feeding.moves_in_loading)
        return feeding.moves_of_whole_samples

    # Contexts.

    @cached_property
    def has_inference(self) -> bool:
        """True if anything in the file runs without gradients."""
        return self.script.source.mentions(*_NO_GRAD_WORDS)

    def is_inference(self, node: ast.AST) -> bool:
        """Return True if `node` runs without gradients: `torch.no_grad` is around it, or around all calls of its function."""
        if not self.has_inference:
            return False
        return all_ends([node], self._calls_with_gradients, self._is_without_gradients)

    def _calls_with_gradients(self, node: ast.AST) -> list[ast.Call]:
        """Return the calls of the function around `node`, if that does not switch gradients off by itself."""
        function, project = self.script.function(node), self.script.project
        if function is None or function.name in _OF_MODELS or self._is_without_gradients(node):
            return []
        calls = callers(self.script, function)  # before the project is searched, which costs more
        is_called_elsewhere = bool(calls) and (
            project.wants(function.name) or project.uses_attribute(function.name)
        )
        return [] if is_called_elsewhere else calls

    def _is_without_gradients(self, node: ast.AST) -> bool:
        """Return True if `torch.no_grad` is around `node`, or on its function."""
        for ancestor in self.script.ancestors(node):
            if isinstance(ancestor, (ast.With, ast.AsyncWith)):
                if any(self._is_no_grad(item.context_expr) for item in ancestor.items):
                    return True
            elif isinstance(ancestor, FUNCTIONS):
                return any(self._is_no_grad(d) for d in ancestor.decorator_list)
        return False

    def _is_no_grad(self, node: ast.expr) -> bool:
        func = node.func if isinstance(node, ast.Call) else node
        dotted = self.script.dotted(func)
        if dotted == "torch.set_grad_enabled" and isinstance(node, ast.Call) and node.args:
            return is_literal(node.args[0], False)
        return dotted in _NO_GRAD


def _is_unpacked(script: ParsedFile, call: ast.Call) -> bool:
    """Return True for `done, norm = optimizer.step()`: PyTorch's optimizers return the loss."""
    around = script.parent(call)
    return isinstance(around, ast.Assign) and isinstance(around.targets[0], (ast.Tuple, ast.List))


# Methods that compute gradients as well, although a file may only evaluate the model.
_OF_MODELS = frozenset({"forward", "__call__"})
_NO_GRAD_WORDS = ("no_grad", "inference_mode", "set_grad_enabled")
_NO_GRAD = frozenset(
    {
        "torch.no_grad",
        "torch.inference_mode",
        "torch.autograd.no_grad",
        f"{library_types.RUNTIME}.inference_mode",
    }
)

# Methods that run the model whose they are.
_RUNS = frozenset({"generate", "sample", "forward", "encode", "decode"})
_OF_GRADIENTS = frozenset(
    f"{home}.{name}"
    for home in ("torch.func", "functorch")
    for name in ("grad", "grad_and_value", "jacfwd", "jacrev", "vjp")
)
_AROUND = frozenset(
    {
        "torch.func.vmap",
        "torch.vmap",
        "functorch.vmap",
        "torch.compile",
        f"{library_types.RUNTIME}.compile",
    }
)
_BUILTINS = frozenset(dir(builtins))
# What functions do with a model, except to run it: `accelerator.unwrap_model(model)`.
_ON_MODELS = Pattern(
    r"_*(?:build|compile|copy|count|create|export|freeze|get|init|load|make|prepare|register|save|setup"
    r"|unfreeze|unwrap|update|wrap)_"
)
# What is done to a model, or asked of it, without running it.
_ACCESSOR = Pattern(
    r"_*(?:set|get|del|has|is|register|save|load|copy|init|update|count|freeze|unfreeze|print|log|add|remove|clip|move)(?:_|attr|$)"
)


def _leaves(block: list[ast.stmt]) -> bool:
    return isinstance(block[-1], (ast.Return, ast.Break, ast.Continue, ast.Raise))


__all__ = [
    "BACKWARD",
    "FORWARD",
    "GRADIENTS",
    "MARK",
    "SCALER",
    "STEP",
    "TRAINING",
    "Driver",
    "Loop",
    "Step",
    "Training",
    "outside_loops",
]
