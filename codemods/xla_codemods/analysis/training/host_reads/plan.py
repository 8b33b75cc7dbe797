"""Decide which reads of every step are deferred, and why the others are not."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple

from ....edits import Edit, InsertAfter, Replace, ReplaceStatement
from ....flow.by_text import calls_by_text
from ....flow.calls import derives, lambda_calls
from ....flow.closure import reach
from ....flow.containers import view_below
from ...inference.library_types import RUNTIME
from ...loops import TRAINING
from ...nodes import COMPREHENSIONS, FUNCTIONS, LOOPS, walk
from ...script import Script
from ...syntax import name_of, position
from ..acting import unmarked_evaluations
from ..tensors.device_tensors import is_device_tensor
from .calls import is_unknown_item, made_later, refuse_shown_as_written
from .deferral import Deferral
from .filling import index_of
from .following import follow_number, follow_tensors
from .read_numbers import is_of_one, may_be_an_integer, number_of, tensor_of

_REPEATING = (*LOOPS, *COMPREHENSIONS, ast.Lambda)
_ARRIVED = f"{RUNTIME}.arrived"
_WALKS = frozenset({"enumerate", "zip"})
_WRAPPERS = frozenset({"enumerate", "list", "reversed", "sorted", "tuple"})
_SHORT = 60  # characters of a line that a message repeats


class Outcome(NamedTuple):
    """What becomes of a read: the edits that defer it, or the obstacle."""

    edits: tuple[Edit, ...] = ()
    obstacle: str = ""
    later: frozenset[ast.AST] = frozenset()  # calls and texts that run later


def plan(
    script: Script, reads: Iterable[ast.AST], always: Collection[ast.AST]
) -> dict[ast.AST, Outcome]:
    """Return what becomes of each of `reads`. Reads with a common sum or call have the same edits."""
    steps = frozenset(always)
    numbers: dict[ast.AST, ast.Call] = {}
    deferrals: dict[ast.AST, Deferral] = {}
    for read in reads:
        deferral = deferrals[read] = Deferral(script, steps)
        number = number_of(script, read)
        if _is_in_a_lambda(script, read):
            deferral.refuse("a lambda reads it")
        if number is not None:
            follow_number(deferral, number)
        else:
            follow_tensors(deferral, read, list(_tensors(script, read)))
        _refuse_unmarked(deferral, number or read)
        if number is not None:
            numbers[read] = number
    outcome = {r: Outcome(obstacle=d.obstacle) for r, d in deferrals.items() if d.obstacle}
    followed = {r: d for r, d in deferrals.items() if not d.obstacle}
    _together_with_conditions(script, followed.values())
    for group in _groups(followed, numbers):
        all_ = Deferral(script)
        for read in group:
            all_.add(followed[read])
        all_.read |= {numbers[read] for read in group if read in numbers}
        edits = tuple(_edits(all_))
        made = Outcome(edits, later=frozenset(all_.later))
        if all_.obstacle:
            made = Outcome(obstacle=all_.obstacle)
        outcome.update((read, made) for read in group)
    return outcome


def _is_in_a_lambda(script: Script, read: ast.AST) -> bool:
    """Return True if `read` is in a lambda that steps call by its name."""
    around = (each for each in script.ancestors(read) if isinstance(each, (ast.Lambda, *FUNCTIONS)))
    function = next(around, None)
    return isinstance(function, ast.Lambda) and bool(lambda_calls(script, function))


def _tensors(script: Script, read: ast.AST) -> Iterator[ast.expr]:
    """Yield the tensors that `read`, a call or formatting, shows as they are."""
    work: list[ast.AST] = [read.test if isinstance(read, (ast.If, ast.Assert)) else read]
    while work:
        node = work.pop()
        if node is read or not isinstance(node, ast.expr) or isinstance(node, ast.BoolOp):
            work += ast.iter_child_nodes(node)  # each side of `and` and `or` is evaluated
        elif is_device_tensor(script, node):
            yield node
        else:
            work += ast.iter_child_nodes(node)


def _refuse_unmarked(deferral: Deferral, node: ast.AST) -> None:
    """Deferred values are fetched at step marks: the read stays if it may run many times without one."""
    script = deferral.script
    calls = reach([node], lambda inner: _calls_around(script, inner))
    marked = [call for call in calls if _marks_steps(script, call)]
    if not marked or any(c not in marked and _repeats(script, c) for c in calls):
        if script.training.loop_of(node) is None and script.function(node) is not None:
            deferral.refuse("the callers of its function mark no steps")
        deferral.refuse(f"the loop{_header(script, node)} marks no steps")


def _header(script: Script, node: ast.AST) -> str:
    """The first line of the innermost loop around `node`, if it is short."""
    loop = next((a for a in script.ancestors(node) if isinstance(a, (ast.For, ast.While))), None)
    match loop:
        case ast.For(target=target, iter=iterable):
            text = f"for {script.segment(target)} in {script.segment(iterable)}"
        case ast.While(test=test):
            text = f"while {script.segment(test)}"
        case _:
            return ""
    return f" `{text}`" if len(text) <= _SHORT and "\n" not in text else ""


def _marks_steps(script: Script, node: ast.AST) -> bool:
    """Return True if a loop around `node` marks steps, or its function takes a step."""
    function = script.function(node)
    if function is not None and (
        script.training.function_effects(function) & TRAINING
        or script.callers.take_part_in_steps(function)
    ):
        return True
    loop, evaluations = script.training.loop_of(node), unmarked_evaluations(script)
    while loop is not None:
        if loop.fed or loop.effects & TRAINING or loop in evaluations:
            return True
        loop = script.training.loop_of(loop.node)
    return False


def _repeats(script: Script, node: ast.AST) -> bool:
    """Return True if `node` stands in a loop, except over the few entries of a dictionary or the few results of models."""
    return any(
        isinstance(ancestor, _REPEATING)
        and not (_is_over_entries(ancestor) or _is_over_results(script, ancestor))
        for ancestor in script.ancestors(node)
    )


def _is_over_results(script: Script, loop: ast.AST) -> bool:
    """Return True for `for real, fake in zip(reals, fakes):` that runs no model: losses of several outputs of one step."""
    if not isinstance(loop, ast.For):
        return False
    effects = script.training.effects_of(loop.body)
    lists = loop.iter.args if isinstance(loop.iter, ast.Call) else [loop.iter]
    is_walk = not isinstance(loop.iter, ast.Call) or name_of(loop.iter.func) in _WALKS
    return (
        is_walk
        and not effects
        and all(isinstance(each, (ast.Attribute, ast.Name)) for each in lists)
        and not any(script.value(each).kinds for each in lists)
    )


def _is_over_entries(loop: ast.AST) -> bool:
    """Return True for `for key, value in sorted(losses.items())`, also in a comprehension."""
    around = loop.generators if isinstance(loop, COMPREHENSIONS) else [loop]
    return all(view_below(getattr(each, "iter", None), _WRAPPERS) for each in around)


def _calls_around(script: Script, node: ast.AST) -> list[ast.Call]:
    """Return the calls of the function that `node` stands in, if neither it nor a loop marks steps."""
    function = script.function(node)
    if function is None or _marks_steps(script, node) or _repeats(script, node):
        return []
    named = (call for call, _ in script.index.calls_of(function.name))
    calls = [call for call in named if not _is_of_another_class(script, call, function)]
    calls += [call.node for call in calls_by_text(script, function.name)]
    return [call for call in calls if function not in script.ancestors(call)]


def _is_of_another_class(script: Script, call: ast.Call, method: ast.AST) -> bool:
    """Return True if `call` runs a method of the same name of a class that has nothing to do with that of `method`."""
    func, owner = call.func, script.class_around(method)
    of = script.value(func.value).definition if isinstance(func, ast.Attribute) else None
    if owner is None or of is owner or not isinstance(of, ast.ClassDef):
        return False
    return not (derives(script, of, owner) or derives(script, owner, of))


def _together_with_conditions(script: Script, deferrals: Collection[Deferral]) -> None:
    """Show the values under a deferred condition together with the condition."""
    conditions = {
        shown for deferral in deferrals for shown in deferral.later if isinstance(shown, ast.If)
    }
    for deferral in deferrals:
        for shown in list(deferral.later):
            condition = script.parent(script.statement(shown))
            if isinstance(condition, ast.If) and condition in conditions:
                deferral.later.setdefault(condition, set()).update(deferral.later.pop(shown))


def _groups(
    deferrals: dict[ast.AST, Deferral], numbers: dict[ast.AST, ast.Call]
) -> list[list[ast.AST]]:
    """Return the reads that end up in the same names or calls, together."""
    groups: list[tuple[set[object], list[ast.AST]]] = []
    for read, deferral in deferrals.items():
        things: set[object] = {*deferral.shared, *deferral.later, numbers.get(read, read)}
        same = [group for group in groups if not things.isdisjoint(group[0])]
        groups = [group for group in groups if group not in same]
        members = [member for _, reads in reversed(same) for member in reads]
        groups.append((things.union(*(others for others, _ in same)), [*members, read]))
    return [members for _, members in groups]


def _edits(deferral: Deferral) -> Iterator[Edit]:
    """Yield the edits of a group of reads."""
    script, xla = deferral.script, deferral.script.xla
    if not deferral.together <= deferral.later.keys():
        deferral.refuse("other values are added to the same list")
    reads = deferral.read
    shown = {call: nodes | (reads & {*walk(call)}) for call, nodes in deferral.later.items()}
    in_calls = {node for nodes in shown.values() for node in nodes}
    tested = {node for statement in deferral.extremes for node in walk(statement.test)}
    for number in sorted(reads - in_calls - deferral.on_device - tested, key=position):
        yield _item(script, number)
    for number in sorted(reads & deferral.on_device, key=position):
        alone = "" if is_of_one(script, tensor_of(number)) else ".reshape(())"
        yield Replace(number, f"{{0}}.detach(){alone}", (tensor_of(number),))
    for call, nodes in shown.items():
        _refuse_other_reads(deferral, call)
        yield from made_later(deferral, call, nodes & reads, nodes - reads)
    in_calls = {node for call in shown for node in walk(call)}
    for call in sorted(deferral.computed - in_calls, key=position):
        holes = ", ".join(f"{{{k}}}" for k in range(len(call.args)))
        text = f"{xla}.computed({script.segment(call.func)}, {holes})"
        yield Replace(call, text, tuple(call.args))
    for statement, (spelled, value) in deferral.extremes.items():
        yield ReplaceStatement(statement, spelled, (value,))
    for element in deferral.filled:
        (place,) = element.targets
        assert isinstance(place, ast.Subscript)
        index = index_of(script, place)
        text = f"{xla}.fill({script.segment(place.value)}, {index}, {{0}})"
        yield ReplaceStatement(element, text, (element.value,))
    for loop in deferral.waited:
        yield InsertAfter(loop, f"{xla}.flush()")
    for load in sorted(deferral.arrived, key=position):
        if not _is_there_already(script, load):
            refuse_shown_as_written(deferral, load)
            yield Replace(load, f"{xla}.arrived({{0}})", (load,))


def _is_there_already(script: Script, load: ast.expr) -> bool:
    """True if `load` stands in `xla.arrived(...)` already."""
    match script.parent(load):
        case ast.Call(func=func, args=[given]):
            return given is load and script.dotted(func) == _ARRIVED
    return False


def _item(script: Script, number: ast.expr) -> Edit:
    assert isinstance(number, ast.Call)
    operand = tensor_of(number)
    spelled = f"{script.xla}.item({{0}})"
    if may_be_an_integer(script, number, operand):
        spelled = f"{script.xla}.computed(float, {spelled})"
    return Replace(number, spelled, (operand,))


def _refuse_other_reads(deferral: Deferral, call: ast.AST) -> None:
    """A read that stays in `call` would wait at the same place."""
    inside = {node for read in deferral.read for node in walk(read)}
    for node in walk(call):
        match node:
            case ast.Call(func=ast.Attribute(attr="item" | "tolist" | "numpy" | "cpu")):
                is_known = node in inside or deferral.read.intersection(_chain(node))
                if not is_known and not is_unknown_item(node, deferral.script):
                    deferral.refuse(f"`{ast.unparse(node)}` is printed with it")


def _chain(node: ast.expr) -> Iterator[ast.expr]:
    """`pred.cpu().numpy().tolist()`, `pred.cpu().numpy()` and `pred.cpu()`."""
    while True:
        match node:
            case ast.Call(func=ast.Attribute(value=owner)):
                yield node
            case ast.Attribute(attr="data", value=owner):
                pass
            case _:
                return
        node = owner
