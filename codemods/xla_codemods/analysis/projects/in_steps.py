"""Calls of one module that run in each training step, and methods that are called on the elements of a collection.

Functions are known by the name by which their own module calls them: `step(x)` or `self.step(x)`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterable, Iterator
from itertools import takewhile
from typing import NamedTuple

from ...flow.by_text import calls_by_text, is_an_element
from ...flow.calls import named, outer_calls
from ...flow.closure import reach
from ...patterns import Pattern
from ..index import Index
from ..inference.values import MODULE
from ..loops import BACKWARD, calls_outside_loops, outside_loops, scaled_by_name
from ..nodes import DEFINITIONS, FUNCTIONS, LOOPS, walk
from ..occasions import is_rare, is_usual
from ..once import once
from ..scopes import FunctionNode, resolve
from ..syntax import name_of, position, walk_body

_LEAVES = (ast.Break, ast.Continue, ast.Raise, ast.Return)
_REPEATED = (*LOOPS, *FUNCTIONS)
# Operations with their own gradient.
OPERATIONS = frozenset({"torch.autograd.Function", "torch.autograd.function.Function"})
# Methods of models in which runners take a step.
_STEPS_OF_MODELS = ("forward_train", "train_step", "training_step")
_LOSS = Pattern(r"(?:Loss|Criterion)\d*$")
_OPTIMIZER = Pattern(r"^(?!.*(?:sched|lr)).*opt", re.IGNORECASE)
_OF_LOSSES = Pattern(r"Loss|Criterion")


def is_in_a_step(node: ast.AST, home: Index) -> bool:
    """True if `node` runs in each turn of a loop that computes gradients, whatever the conditions.

    Or in a function that is called there. A loop over epochs counts only if `node` runs in an inner loop, such as
    that of an evaluation: what runs beside it runs once per epoch.
    """
    if _is_beside_its_backward(node, home):
        return True
    is_in_a_loop = any(True for _ in _loops_around(node, home))
    for place in reach([node], lambda inner: _calls_around(inner, home)):
        loops = [*_loops_around(place, home)]
        if loops and (place is node or not is_in_a_loop):
            calls = home.cached(_calls_in_each_turn, loops.pop(0))
            if not home.cached(_backward_calls_of_steps).isdisjoint(calls):
                return True
        if any(not home.cached(_backward_calls).isdisjoint(walk(loop)) for loop in loops):
            return True
    return False


def _calls_in_each_turn(home: Index, loop: ast.AST) -> list[ast.AST]:
    """Return the calls in each turn of `loop`, outside inner loops."""
    body = getattr(loop, "body", [])
    return [node for node in outside_loops(body) if isinstance(node, ast.Call)]


def _is_beside_its_backward(node: ast.AST, home: Index) -> bool:
    """True if `node` is a call of a function that computes gradients, both outside of its loops: the function is a step."""
    function = home.function(node)
    calls = home.cached(calls_outside_loops, function) if function is not None else []
    return node in calls and any(name_of(call.func) == BACKWARD for call in calls)


def is_beside_a_backward(node: ast.AST, home: Index) -> bool:
    """True if `node` stands in a loop or function that computes gradients as well."""
    around = {around for around in home.ancestors(node) if isinstance(around, _REPEATED)}
    calls = home.calls_of("backward")
    return any(not around.isdisjoint(home.ancestors(call)) for call, _ in calls)


@once
def computing(home: Index) -> Collection[FunctionNode]:
    """The `forward` methods of the module classes of a file, `__call__` of classes called losses, operations with their
    own gradient, and what they call: methods of the same object, functions of the file. In the order of calls.
    """

    def called(function: FunctionNode) -> Iterator[FunctionNode]:
        for node in walk_body(function.body):
            for func in _called_by(node):
                found = named(home, func)
                owner = home.parent(found) if found is not None else None
                # Inherited methods are often called now and then: `self.unmerge()`.
                if found and (isinstance(owner, ast.Module) or owner is home.parent(function)):
                    yield found

    return reach(_forwards(home), called).keys()


def _called_by(node: ast.AST) -> list[ast.expr]:
    """Return the function that a call runs, or the methods in a table of a model's parts: `{"TransE": self.trans_e}`."""
    match node:
        case ast.Call(func=ast.Name() | ast.Attribute(value=ast.Name(id="self")) as func):
            return [func]
        case ast.Dict(values=values):
            return [
                v for v in values if isinstance(v, ast.Attribute) and name_of(v.value) == "self"
            ]
    return []


def _forwards(home: Index) -> Iterator[FunctionNode]:
    for definition, scope in home.of(ast.ClassDef):
        method = None
        if MODULE in home.inference.base_kind(definition, scope):
            method = home.inference.method(definition, "forward")
            steps = (home.inference.method(definition, name) for name in _STEPS_OF_MODELS)
            yield from (step[0] for step in steps if step is not None)
            if method is None and _OF_LOSSES.search(definition.name):  # not a decoder's
                method = home.inference.method(definition, "__call__")
        elif _LOSS.search(definition.name):  # `class TripletLoss(object)`
            method = home.inference.method(definition, "__call__")
        elif any(home.dotted(base) in OPERATIONS for base in definition.bases):
            parts = (part for part in definition.body if isinstance(part, ast.FunctionDef))
            yield from (part for part in parts if part.name in {"forward", "backward"})
        if method is not None:
            yield method[0]


def _backward_calls(home: Index) -> frozenset[ast.AST]:
    """The calls that compute gradients, `loss.backward()` or `scaler(loss, optimizer)`, and calls of functions that make one."""
    return frozenset(reach(_own_backward_calls(home), lambda call: _calls_outside(call, home)))


def _backward_calls_of_steps(home: Index) -> frozenset[ast.AST]:
    """The same without calls of functions that take all steps of an epoch."""
    calls: list[ast.AST] = [call for call, _ in home.calls_of("step")]
    stepping = reach(calls, lambda call: _calls_outside(call, home))
    steps = {around for call in stepping for _, around in above(call, home)}

    def around(call: ast.AST) -> list[ast.AST]:
        loops = (around for _, around in above(call, home) if isinstance(around, LOOPS))
        return [] if any(loop in steps for loop in loops) else _calls_outside(call, home)

    of_optimizers = (call for call, _ in home.calls_of("step") if _is_of_an_optimizer(call))
    return frozenset(reach([*_own_backward_calls(home), *of_optimizers], around))


def _is_of_an_optimizer(step: ast.Call) -> bool:
    """Return True for `self.optimizer.step()` and `opt.step()`, and False for a scheduler's, which may be one per epoch."""
    owner = step.func.value if isinstance(step.func, ast.Attribute) else step.func
    return _OPTIMIZER.search(name_of(owner)) is not None


def _calls_outside(call: ast.AST, home: Index) -> list[ast.AST]:
    """Return the calls of the function around `call`, and of the same object's methods that receive it to call it."""
    function = home.function(call)
    given = passes_method(function.name, home) if function is not None else ()
    own = (call for call in given if name_of(getattr(call.func, "value", call)) == "self")
    return [*outer_calls(home, call), *own]


def _own_backward_calls(home: Index) -> list[ast.AST]:
    scaled = (call for call, _ in home.of(ast.Call) if scaled_by_name(call))
    return [*(call for call, _ in home.calls_of("backward")), *scaled]


def is_repeated(calls: Iterable[ast.AST], home: Index) -> bool:
    """Return True if one of `calls` runs in each turn of a loop, or a loop calls the function around it."""

    def outer(call: ast.AST) -> list[ast.Call]:
        function = home.function(call)
        return calls_and_receivers(function.name, home) if function is not None else []

    return any(
        isinstance(around, LOOPS) and child in around.body
        for call in reach(calls, outer)
        for child, around in above(call, home)
    )


def calls_and_receivers(name: str, home: Index) -> list[ast.Call]:
    """Return the calls of `name`, and those that receive it to call it."""
    return [*(call for call, _ in home.calls_of(name)), *passes_method(name, home)]


def passes_method(name: str, home: Index) -> Iterator[ast.Call]:
    """Yield the calls that receive the method `name` of an object to call it: `retry(trainer.train_step, batch)`."""
    for node, scope in home.attributes(name):
        call = home.parent(node)
        if isinstance(call, ast.Call) and node in call.args and resolve(node, scope) is None:
            yield call


def _calls_around(node: ast.AST, home: Index) -> list[ast.AST]:
    """The calls of the function around `node`, unless a condition decides whether `node` runs."""
    is_conditional = any(_is_condition_of(c, a, home) for c, a in above(node, home))
    return [] if is_conditional else _calls_outside(node, home)


def _is_condition_of(child: ast.AST, around: ast.AST, home: Index) -> bool:
    """Return True if a test of `around` decides whether `child` runs, except whether this is the step of an update."""
    if not isinstance(around, (ast.If, ast.IfExp)) or child is around.test:
        return False
    is_body = child is around.body if isinstance(around, ast.IfExp) else child in around.body
    branch = (around.body if is_body else around.orelse) if isinstance(around, ast.If) else []
    steps = {call for call, _ in home.calls_of("step") if _is_of_an_optimizer(call)}
    if "sync_gradients" in map(name_of, walk(around.test)) or steps & {*outside_loops(branch)}:
        return False
    # A step is compared with a number, or with a name that is unknown here.
    is_occasional = is_rare(home, around.test, lambda _: True)
    is_left = any(isinstance(statement, _LEAVES) for statement in branch)
    return is_left or (is_occasional and is_usual(around.test) is not is_body)


def _loops_around(node: ast.AST, home: Index) -> Iterator[ast.AST]:
    """The loops of the function around `node` in each of whose turns it runs."""
    for child, around in above(node, home):
        if _is_condition_of(child, around, home):
            return
        if isinstance(around, LOOPS) and child in around.body:
            yield around


def above(node: ast.AST, home: Index) -> Iterator[tuple[ast.AST, ast.AST]]:
    """Yield the nodes around `node`, each with its parent, up to the function or class around."""
    return takewhile(lambda pair: not isinstance(pair[1], DEFINITIONS), home.upward(node))


def tensor_behind(argument: ast.expr, index: Index) -> ast.expr | None:
    """`loss` of `loss.item()`, and of a name for that, while `loss` is what it was."""
    if not isinstance(argument, ast.Name):
        return _read(argument)
    scope = index.scope(argument)
    if len(scope.bindings.get(argument.id, ())) != 1:
        return None
    (bound,) = scope.bindings[argument.id]
    tensor = _read(bound.whole)
    if not isinstance(tensor, ast.Name) or not _is_computed(tensor, index):
        return None
    return None if _changes(tensor, argument, index) else tensor


def _read(node: ast.expr | None) -> ast.expr | None:
    match node:
        case ast.Call(func=ast.Attribute(attr="item", value=owner), args=[], keywords=[]):
            return owner
    return None


def _is_computed(tensor: ast.Name, home: Index) -> bool:
    """Return True for a result, which is no parameter that the optimizer changes."""
    bindings = home.bindings(tensor)
    return bool(bindings) and all(
        b.how in {"assign", "augment"} and isinstance(b.value, (ast.Call, ast.BinOp))
        for b in bindings
    )


def _changes(tensor: ast.Name, until: ast.expr, home: Index) -> bool:
    """Return True if `tensor` may be another, or hold another value, at `until`, which stands below."""
    uses = [use for use in home.same(tensor) if position(tensor) < position(use) < position(until)]
    is_changed = any(not isinstance(u.ctx, ast.Load) or _is_in_place(u, home) for u in uses)
    return is_changed or position(until) < position(tensor)


def _is_in_place(node: ast.AST, home: Index) -> bool:
    """Return True for `loss.mul_(2)` and `loss.data.div_(n)`."""
    attributes = takewhile(lambda around: isinstance(around, ast.Attribute), home.ancestors(node))
    return any(name_of(each).endswith("_") for each in attributes)


class Call(NamedTuple):
    """A call that runs a function, in the module `home`; `passes` has the arguments that the function receives."""

    node: ast.Call
    home: Index
    passes: ast.Call


def on_elements(method: str, home: Index) -> Iterator[Call]:
    """Yield the calls that run `method` of each element, in the module of `home`.

    `hook.after_step(self)` of `for hook in self.hooks`, and `self.call("after_step")` if `call` runs
    `getattr(hook, name)(self)`.
    """
    for node, scope in home.calls_of(method):
        match node.func:
            case ast.Attribute(value=ast.Name(id=name)) if is_an_element(name, scope):
                yield Call(node, home, node)
    for call, passes in calls_by_text(home, method):
        yield Call(call, home, passes)
