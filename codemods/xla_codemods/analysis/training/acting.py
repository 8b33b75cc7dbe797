"""Loops inside training: those that act or evaluate without gradients, and those that are a part of a step."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator

from ...flow.calls import outer_calls
from ...flow.closure import ends, reach
from ...flow.edges import unpacked, uses
from ...patterns import Pattern
from ..frameworks.accelerator import uses_accelerate
from ..inference.values import MODULE, PARAMETERS
from ..nodes import walk
from ..once import once
from ..parsed_file import ParsedFile
from ..projects.in_steps import OPERATIONS
from ..scopes import FunctionNode
from ..script import Script
from ..syntax import is_literal, name_of
from .steps import calls_of, is_of_an_optimizer
from .training import FORWARD, GRADIENTS, MARK, TRAINING, Loop, outside_loops

_TRANSFORM = Pattern(r"(?:torch\.func|functorch|torch\.vmap|torch\.autograd\.functional)\b")


def acts(script: Script, loop: Loop) -> bool:
    """True if models run in each turn of `loop`, and there without gradients alone."""
    training = script.training
    if not training.has_inference:
        return False
    runs = _forwards(script, loop.body)
    return all(training.is_inference(call) or _predicting(script, call) for call in runs)


@once
def unmarked_evaluations(script: Script) -> list[Loop]:
    """The loops that evaluate or act and that neither a device loader nor the script marks: XLA502 does."""
    # accelerate's loaders mark; loops that sample have none.
    marked = uses_accelerate(script)
    return [
        loop
        for loop in script.training.loops
        if loop.is_statement
        and _lacks_marks(script, loop)
        and not (marked and loop.drivers and not _samples(script, loop))
    ]


def _samples(script: Script, loop: Loop) -> bool:
    """Return True if the models of `loop` receive their results of the iteration before: no loader feeds it.

    `for t in scheduler.timesteps: latents = scheduler.step(unet(latents, t), t, latents)`.
    """
    if any(map(script.training.feeding.is_called_a_loader, loop.drivers)):
        return False
    runs = _forwards(script, loop.body)
    inside = {node for statement in loop.body for node in walk(statement)}

    def step(node: ast.expr) -> Iterator[ast.expr]:
        found = [n for n in walk(node) if n is not node and isinstance(n, ast.expr)]
        if isinstance(node, ast.Name):
            found = [b.value for b in script.reaching(node) if b.value is not None]
        return (each for each in found if each in inside)

    given = [value for run in runs for value in (*run.args, *(k.value for k in run.keywords))]
    return not reach(given, step).keys().isdisjoint(runs)


def is_an_action(script: Script, node: ast.AST) -> bool:
    """Return True if `node` reaches an environment's step, also through names and functions.

    `obs, reward, done, _ = env.step(action.item())`.
    """
    start: list[ast.AST] = [node]
    steps = (_step_of(script, each) for each in reach(start, lambda each: _uses(script, each)))
    return any(step is not None and _is_unpacked(script, step) for step in steps)


def _step_of(script: Script, argument: ast.AST) -> ast.Call | None:
    """Return `env.step(argument)`."""
    match script.parent(argument):
        case ast.Call(func=ast.Attribute(attr="step") as func) as call if func is not argument:
            return call
    return None


def _uses(script: Script, node: ast.AST) -> list[ast.AST]:
    """Return the expression that `node` is a part of, and the uses of its value."""
    parent = script.parent(node)
    if isinstance(parent, ast.stmt) and isinstance(node, ast.expr):
        return [*uses(script, node), *(name for name, _ in unpacked(script, node))]
    return [parent] if parent is not None and _step_of(script, node) is None else []


def _is_unpacked(script: Script, call: ast.Call) -> bool:
    """True if what `call` gives is taken apart, as an observation, a reward and whether it ends are: no optimizer,
    scheduler or progress of a trainer gives such.
    """
    parent = script.parent(call)
    return isinstance(parent, ast.Assign) and any(
        isinstance(target, ast.Tuple) and len(target.elts) > 2 for target in parent.targets
    )


def _lacks_marks(script: Script, loop: Loop) -> bool:
    inference = script.training.is_inference(loop.node)
    if not (inference or script.trains) or is_of_an_optimizer(script, loop.node):
        return False
    effects = loop.effects
    if FORWARD not in effects or effects & {*TRAINING, MARK, GRADIENTS} or loop.fed:
        return False
    if is_part_of_a_model(script, loop):
        return False
    if not (inference or acts(script, loop) or _is_in_evaluation_mode(script, loop)):
        return False
    return not _is_over_epochs(script, loop)


def _is_in_evaluation_mode(script: Script, loop: Loop) -> bool:
    """True in a function that calls `model.eval()` and computes no gradients, although it does not switch them off."""
    function = script.function(loop.node)
    if function is None:
        return False

    def called(name: str) -> list[ast.Call]:
        calls = (call for call, _ in script.index.calls_of(name))
        return [call for call in calls if script.function(call) is function]

    if called("backward") or called("grad") or called("step"):
        return False
    return any(isinstance(call.func, ast.Attribute) and not call.args for call in called("eval"))


def _is_over_epochs(script: Script, loop: Loop) -> bool:
    """Return True if each turn trains in an inner loop with marks, so that samples between epochs do not accumulate."""
    calls = [node for node in outside_loops(loop.body) if isinstance(node, ast.Call)]
    called = {script.value(call.func).definition for call in calls} - {None}
    return any(
        script.function(step.call) in called and script.training.loop_of(step.call) is not None
        for step in script.training.steps
    )


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
    return loop is not None and bool(loop.effects & TRAINING)


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
    function = script.function_of(call.func)
    return function is not None and _predicts(script, function.body)


# Methods of a module that compute in their own loop: each turn is a graph.
_TURNS = Pattern(
    r"generat|sampl|decod|predict|translat|infer|search|rollout|evaluat|valid|test|step|fit|train|epoch|optimi",
    re.IGNORECASE,
)
# What goes through a module's tensors, one by one.
_MEMBERS = frozenset(
    "buffers children modules named_buffers named_children named_modules named_parameters parameters state_dict".split()
)


def is_part_of_a_model(script: ParsedFile, loop: Loop) -> bool:
    """Loops in what a module computes, and loops over layers, parameters or states."""
    function = script.function(loop.node)
    if function is not None:
        if function.name in {"forward", "__call__"} or is_of_an_operation(script, function):
            return True
        if script.is_in_a_module(function) and not _TURNS.search(function.name):
            return True
    if not isinstance(loop.node, (ast.For, ast.AsyncFor)):
        return False
    if any(isinstance(n, ast.Attribute) and n.attr in _MEMBERS for n in walk(loop.node.iter)):
        return True
    iterated = script.value(loop.node.iter)
    element = iterated.iterated()
    return bool((iterated.kinds | element.kinds) & {MODULE, PARAMETERS})


def is_of_an_operation(script: ParsedFile, function: FunctionNode) -> bool:
    """True if `function` belongs to a `torch.autograd.Function`: it runs in the middle of a step's gradients."""
    made = script.parent(function)
    return isinstance(made, ast.ClassDef) and any(
        script.dotted(base) in OPERATIONS for base in made.bases
    )


def is_hook(script: ParsedFile, node: ast.AST) -> bool:
    """True if `node` stands in a function that is registered as a hook: it runs in the middle of backward."""
    function = script.function(node)
    if function is None or not script.source.mentions("hook"):
        return False
    for call, _ in script.index.of(ast.Call):
        name = call.func.attr if isinstance(call.func, ast.Attribute) else ""
        if "hook" in name and any(
            isinstance(a, ast.Name) and a.id == function.name for a in call.args
        ):
            return True
    return False


def is_part_of_a_step(script: Script, loop: Loop) -> bool:
    """True if what `loop` computes is differentiated, or updates weights, in the code around it.

    The loop of a meta-learner's own steps, of an attack on the batch, of a penalty: these belong to one graph.
    """
    in_body = [part for node in loop.body for part in walk(node) if isinstance(part, ast.keyword)]
    is_graph = any(k.arg == "create_graph" and not is_literal(k.value, False) for k in in_body)
    if is_graph and script.function(loop.node) is not None:
        return True
    if _gradients_follow(script, loop) or _is_transformed(script, loop):
        return True
    by_node = script.training.by_node
    around = (by_node[a] for a in script.ancestors(loop.node) if a in by_node)
    return any(loop.effects & TRAINING for loop in around) or is_called_by_a_step(script, loop)


def _is_transformed(script: Script, loop: Loop) -> bool:
    """Return True if `vmap`, `grad` or another transform of torch.func runs the function around `loop`: it is part of a graph."""
    if not script.training.may_take_gradients:
        return False
    start: list[ast.AST] = [loop.node]
    places = reach(start, lambda place: outer_calls(script, place))
    functions = {function for place in places if (function := script.function(place)) is not None}
    names = sorted({getattr(function, "name", "") for function in functions})
    named: list[ast.expr] = [node for name in names for node, _ in script.index.names(name)]
    named += [node for name in names for node, _ in script.index.attributes(name)]
    passed = [node for node in named if script.function_of(node) in functions]
    prepared = reach(passed, lambda node: _prepared_with(script, node))
    return any(
        isinstance(around, ast.Call) and _TRANSFORM.match(script.dotted(around.func) or "")
        for place in (*places, *prepared)
        for around in script.ancestors(place)
    )


def _prepared_with(script: Script, node: ast.expr) -> list[ast.expr]:
    """Return `partial(f, x)` for the function `f`, and the names that have its value."""
    call = script.parent(node)
    is_partial = isinstance(call, ast.Call) and name_of(call.func) == "partial"
    return [*([call] if is_partial else ()), *uses(script, node)]


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


def outermost_places(script: Script, step: ast.Call) -> Iterator[ast.Call]:
    """Yield the calls for which the step is marked: `step`, or the calls of its function in loops over optimizers."""

    def outer(place: ast.Call) -> list[ast.Call]:
        function = script.function(place)
        calls = calls_of(script, function) if isinstance(function, ast.FunctionDef) else []
        return calls if all(_is_for_each_optimizer(script, call) for call in calls) else []

    yield from ends([step], outer)


def _is_for_each_optimizer(script: Script, call: ast.Call) -> bool:
    return any(
        script.training.is_over_steppers(loop)
        for ancestor in script.ancestors(call)
        if (loop := script.training.by_node.get(ancestor)) is not None
    )
