"""Code that runs once per training step: the bodies of loops that step or compute gradients, and their functions."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from itertools import takewhile
from typing import NamedTuple

from ...flow.by_text import is_an_element, run_by_text
from ...flow.calls import callers, heirs, lambdas, mapped, methods, passed, properties
from ...flow.closure import reach
from ...flow.conditions import truth
from ..devices.specs import last_name
from ..frameworks.hooks import called_in_steps
from ..inference.values import INSTANCE, NUMBER
from ..loops import FORWARD, GRADIENTS
from ..nodes import FUNCTIONS, LEAVES, LOOPS, walk
from ..occasions import is_rare, is_usual
from ..once import once
from ..projects.in_steps import calls_and_receivers, is_repeated
from ..scopes import FunctionNode
from ..script import Script
from ..syntax import evaluated, is_size, name_of, returned
from .acting import unmarked_evaluations
from .engines import is_step_of_an_engine
from .tensors.computed import computing
from .training import BACKWARD, STEP, TRAINING

_LEAVES = (ast.Break, ast.Return, ast.Raise)
_RUNNING = frozenset({ast.Call, ast.Attribute})  # these may run a function


class Turn(NamedTuple):
    """A loop that trains, or a function that takes one training step, with what runs in each turn."""

    node: ast.AST
    body: list[ast.stmt]


@once
def turns(script: Script) -> tuple[Turn, ...]:
    """The innermost loops that step or compute gradients, the functions that do and are called from loops, what
    modules compute, and what frameworks call.
    """
    found: list[Turn] = []
    if script.training.may_step:
        for loop in script.training.loops:
            if isinstance(loop.node, LOOPS) and loop.effects & TRAINING:
                found.append(Turn(loop.node, loop.node.body))
        found += [Turn(function, function.body) for function in _stepping(script)]
    found += [Turn(function, function.body) for function in computing(script) if function]
    functions = [function for function, _ in script.index.of(ast.FunctionDef)]
    found += [Turn(f, f.body) for f in functions if script.callers.take_part_in_steps(f)]
    return (*found, *of_frameworks(script))


def of_frameworks(script: Script) -> tuple[Turn, ...]:
    """The functions that a framework's own loop calls."""
    functions = called_in_steps(script)
    return tuple(Turn(f, f.body) for f in sorted(functions, key=lambda f: f.lineno))


def _stepping(script: Script) -> list[ast.FunctionDef]:
    """Functions that step or compute gradients, called from loops, or by others of them."""
    left = [
        function
        for function, _ in script.index.of(ast.FunctionDef)
        if script.training.function_effects(function) & TRAINING
    ]
    index = script.index
    found = [
        function
        for function in left
        if is_repeated(
            [*calls_and_receivers(function.name, index), *callers(script, function)], index
        )
        or script.callers.call_in_a_loop(function)
        or _is_a_step_for_others(script, function)
    ]
    called: dict[FunctionNode | None, list[ast.FunctionDef]] = {}
    for function in left:
        for call, _ in script.index.calls_of(function.name):
            called.setdefault(script.function(call), []).append(function)
    reached = reach(found, lambda caller: called.get(caller, ()))
    return sorted(reached, key=lambda function: function.lineno)


def _is_a_step_for_others(script: Script, function: ast.FunctionDef) -> bool:
    """A whole step, from loss to update, that nothing here calls (`agent.update(batch)`), or that receives its loss.

    Or a function that computes gradients and is returned by the one around it: `return step`.
    """
    effects = script.training.function_effects(function)
    if STEP in effects and _accumulates(script, function):
        effects |= {BACKWARD}
    if BACKWARD in effects and _is_returned(script, function):
        return True
    if not effects >= {STEP, BACKWARD} or function.name.startswith("test"):
        return False
    handed = {arg.arg for arg in (*function.args.posonlyargs, *function.args.args)}
    for call, _ in script.index.calls_of("backward"):
        names = {n.id for n in walk(call.func) if isinstance(n, ast.Name)}
        if names & handed and script.function(call) is function:
            return True
    return not _is_named(script, function) or is_step_of_an_engine(script, function)


def _accumulates(script: Script, function: ast.FunctionDef) -> bool:
    """Return True if a loop of `function` computes gradients and takes no step."""
    own = (loop for loop in script.training.loops if script.function(loop.node) is function)
    return any(BACKWARD in loop.effects and STEP not in loop.effects for loop in own)


def _is_returned(script: Script, function: FunctionNode) -> bool:
    around = script.function(function)
    values = returned(around) if around is not None else ()
    return any(isinstance(v, ast.Name) and v.id == function.name for v in values)


def _is_named(script: Script, function: ast.FunctionDef) -> bool:
    """True if this project calls `function`, or an object of the class whose `__call__` it is, or hands it on."""
    owner, name = script.parent(function), function.name
    if name == "__call__" and isinstance(owner, ast.ClassDef):
        name = owner.name
    index, project = script.index, script.project
    if index.names(name) or index.attributes(name):
        return True
    return project.wants(name) or project.uses_attribute(name)


def evaluating(script: Script) -> tuple[Turn, ...]:
    """The loops that run a model and train nothing, and whose turns a device loader or a mark of XLA502 cuts."""
    cut = unmarked_evaluations(script)
    return tuple(
        Turn(loop.node, loop.node.body)
        for loop in script.training.loops
        if isinstance(loop.node, LOOPS)
        and FORWARD in loop.effects
        and not loop.effects & {*TRAINING, GRADIENTS}
        and (loop.fed or loop in cut)
    )


@once
def in_each_step(script: Script) -> Mapping[ast.AST, Turn]:
    """Every node that runs in each training step, with its turn."""
    return dict(in_each_turn(script, turns(script)))


@once
def in_steps_and_evaluations(script: Script) -> Mapping[ast.AST, Turn]:
    """Every node that runs in each training step, or in each batch of an evaluation, with its turn."""
    return dict(in_each_turn(script, (*turns(script), *evaluating(script))))


def in_each_turn(script: Script, of: Iterable[Turn]) -> Iterator[tuple[ast.AST, Turn]]:
    """Every node that runs in each of the turns `of` (inner loops included), once; not what is done now and then."""
    around: dict[ast.AST, Turn] = {}
    left_before = script.cached(_left_before)

    def kept(body: Iterable[ast.AST], turn: Turn) -> list[ast.AST]:
        found = [node for node in body if node not in left_before]
        for node in found:
            around.setdefault(node, turn)
        return found

    def step(node: ast.AST) -> list[ast.AST]:
        if type(node) in LEAVES:
            return []
        inside = kept(_always(script, node), around[node])
        for function in _run_by(script, node) if type(node) in _RUNNING else ():
            inside += kept(function.body, Turn(function, function.body))
        if isinstance(node, ast.Call):
            inside += kept([each.body for each in lambdas(script, node.func)], around[node])
        return inside

    start = (node for turn in [*of][::-1] for node in kept(turn.body, turn))  # inner ones first
    return ((node, around[node]) for node in reach(start, step))


def _always(script: Script, node: ast.AST) -> list[ast.AST]:
    """Return the children of `node` that run whenever it does."""
    match node:
        case ast.BoolOp(op=ast.And(), values=values):
            ends = (k for k, value in enumerate(values) if _is_always(script, value, False))
            return [*values[: next(ends, len(values)) + 1]]
        case ast.BoolOp(op=ast.Or(), values=values):
            ends = (k for k, value in enumerate(values) if _is_always(script, value, True))
            return [*values[: next(ends, len(values)) + 1]]
        case ast.IfExp(test=test, body=body, orelse=other):
            parts = ((body, False), (other, True))
            return [test, *(part for part, result in parts if not _is_always(script, test, result))]
        case ast.If(test=test, body=body, orelse=other):
            inside = [] if _is_occasional(script, node, True) else body
            return [test, *inside, *([] if _is_occasional(script, node, False) else other)]
        case ast.Assert(test=test):
            return [test]
        case ast.ExceptHandler() | ast.Raise():
            return []
        case ast.Lambda(body=body) if mapped(script, node):
            return [body]
    return evaluated(node)


def _run_by(script: Script, node: ast.AST) -> Iterator[FunctionNode]:
    """Yield the functions of this file that the call or the property `node` runs."""
    computed = script.index.cached(properties)
    functions: list[FunctionNode | None] = []
    if isinstance(node, ast.Call):
        called = None if script.is_module(node.func) else script.function_of(node.func)
        functions = [called, *_handed_on(script, node)]
        functions += [*_hooks(script, node, called), _stepped(script, node)]
    elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
        found = script.local_method(node) if node.attr in computed else None
        functions = [found] if found in computed.get(node.attr, ()) else []
    yield from filter(None, functions)


def _stepped(script: Script, call: ast.Call) -> FunctionNode | None:
    """Return the method of this file's optimizer that `xla.optimizer_step(optimizer)` runs."""
    step = script.training.step(call)
    if step is None or not step.migrated or step.optimizer is None:
        return None
    owner = script.class_of(step.optimizer)
    found = script.inference.method(owner, "step") if owner is not None else None
    return found[0] if found is not None else None


def _handed_on(script: Script, call: ast.Call) -> Iterator[FunctionNode | None]:
    """Yield the methods passed to a method of the same object, to be called: `self.with_autocast(self.distill, outputs)`."""

    def is_own(func: ast.expr) -> bool:
        return isinstance(func, ast.Attribute) and name_of(func.value) == "self"

    given = (*call.args, *(k.value for k in call.keywords))
    yield from map(script.local_method, filter(is_own, given) if is_own(call.func) else ())


def _hooks(script: Script, call: ast.Call, known: FunctionNode | None) -> list[FunctionNode]:
    """Return the methods that `call` may run of an object of an unknown class: `for hook in hooks: hook.on_end()`.

    By their name, or by `getattr(hook, name)`. If the method of one class is `known`, also those of derived classes.
    """
    by_name = script.index.cached(methods)
    match call.func:
        case ast.Attribute(value=ast.Name() as owner, attr=name) if _is_an_element(script, owner):
            base, named = known and script.parent(known), by_name.get(name, [])
            if not isinstance(base, ast.ClassDef):
                return named
            owners = heirs(script, base)
            return [method for method in named if script.parent(method) in owners]
    return run_by_text(script, call)


def _is_an_element(script: Script, owner: ast.Name) -> bool:
    """True if `owner` iterates over something, and its class is not known."""
    is_known = bool(script.value(owner).kinds - {INSTANCE})
    return not is_known and is_an_element(owner.id, script.index.scope(owner))


def _is_occasional(script: Script, node: ast.If, is_body: bool) -> bool:
    """Return True if the body of `node`, or its `else`, runs now and then only, or once at the end."""
    if _is_always(script, node.test, not is_body):
        return True
    block = node.body if is_body else node.orelse
    if STEP in script.training.effects_of(block):
        return False  # `if (i + 1) % accumulate == 0: optimizer.step()`: the step itself
    leaves = (_leaves(script, s) or is_an_exit(script, getattr(s, "value", s)) for s in block)
    if any(leaves):
        return True
    if _is_exceptional(node.test, is_body):
        return True
    if _is_always(script, node.test, is_body) or not is_rare(
        script, node.test, partial(_is_number, script)
    ):
        return False
    return is_usual(node.test) is not is_body


def _is_number(script: Script, node: ast.expr) -> bool:
    return script.value(node).has(NUMBER)


def _leaves(script: Script, statement: ast.stmt) -> bool:
    """Return True if `statement` ends the turns: a `return` does in a loop, and elsewhere chooses what a call returns."""
    if isinstance(statement, ast.Return) and statement.value is not None:
        inside = takewhile(
            lambda node: not isinstance(node, FUNCTIONS), script.ancestors(statement)
        )
        return any(isinstance(node, LOOPS) for node in inside)
    return isinstance(statement, _LEAVES)


def _is_exceptional(test: ast.expr, is_body: bool) -> bool:
    """`if torch.isnan(loss):`, and behind `else` of `if torch.isfinite(loss):`: a step that went wrong."""
    while isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        test, is_body = test.operand, not is_body
    called = {last_name(n.func) for n in walk(test) if isinstance(n, ast.Call)}
    return bool(called & {"isnan", "isinf"}) if is_body else "isfinite" in called


def is_an_exit(script: Script, node: ast.AST) -> bool:
    """`sys.exit(1)`, `exit()`, `quit()`: what stands beside it runs once."""
    match node:
        case ast.Call(func=ast.Name(id="exit" | "quit") as func):
            return script.index.scope(func).find(func.id) is None
        case ast.Call(func=func):
            return script.dotted(func) in {"sys.exit", "os._exit", "os.abort"}
    return False


def _left_before(script: Script) -> frozenset[ast.stmt]:
    """The statements before which most turns end: `if step % 10 != 0: continue` stands above them."""
    found: set[ast.stmt] = set()
    for node, _ in script.index.of(ast.If):
        if (
            not node.orelse
            and isinstance(node.body[-1], (ast.Continue, ast.Return))
            and is_usual(node.test)
        ):
            block = script.block(node)
            found.update(block[block.index(node) + 1 :])
    return frozenset(found)


def _is_always(script: Script, test: ast.expr, result: bool) -> bool:
    """True if `test` is `result` whatever comes: `False`, `0`, `DEBUG` of the module's `DEBUG = False`."""

    def known(part: ast.expr) -> bool | None:
        if isinstance(part, ast.Name) and not script.is_imported_elsewhere(part.id):
            given = script.only_value(part)
            if given is not None and not isinstance(given, (ast.Name, ast.BoolOp)):
                return truth(given, known)
        if isinstance(part, ast.Name) and _is_given_a_size(script, part):
            return True
        return bool(part.value) if isinstance(part, ast.Constant) else None

    return truth(test, known) is result


def _is_given_a_size(script: Script, node: ast.Name) -> bool:
    """Return True if `node` is a parameter for which every call passes the size of something."""
    function = script.function(node)
    if function is None or [b.how for b in script.reaching(node)] != ["parameter"]:
        return False
    elsewhere = script.callers.arguments(node.id, function)
    given = passed(script, function, node.id)
    values = [*given, *elsewhere] if elsewhere is not None else []
    return bool(values) and all(value is not None and is_size(value) for value in values)
