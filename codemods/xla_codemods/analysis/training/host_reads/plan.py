"""Decide which reads of every step are deferred, and why the others are not."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from ....edits import Edit, InsertAfter, InsertBefore, Replace, ReplaceStatement
from ....flow.closure import reach
from ...inference.library_types import RUNTIME
from ...loops import BACKWARD, STEP
from ...nodes import walk
from ..acting import unmarked_evaluations
from ..tensors.device_tensors import is_device_tensor
from .blocked import Blocked
from .calls import (
    computed_later,
    is_unknown_item,
    made_later,
    refuse_shown_as_written,
    tensor_of,
)
from .deferral import Deferral
from .following import Followed
from .functions import Extreme, is_property
from .read_numbers import is_of_one, may_be_an_integer, number_of, number_of_numpy

if TYPE_CHECKING:
    from ...script import Script

_REPEATING = (
    *(ast.For, ast.AsyncFor, ast.While, ast.Lambda),
    *(ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp),
)
_ARRIVED = f"{RUNTIME}.arrived"


class Outcome(NamedTuple):
    """What becomes of a read: the edits that make it later, or what stands in the way."""

    edits: tuple[Edit, ...] = ()
    obstacle: str = ""
    later: frozenset[ast.AST] = frozenset()  # what is made or computed later


def plan(
    script: Script, reads: Iterable[ast.AST], always: Collection[ast.AST]
) -> dict[ast.AST, Outcome]:
    """What becomes of each of `reads`. Those that go into the same sums or calls have the same edits."""
    reads = list(reads)
    numbers = {read: number for read in reads if (number := number_of(script, read)) is not None}
    deferrals: dict[ast.AST, Deferral] = {}
    outcome: dict[ast.AST, Outcome] = {}
    for read, number in numbers.items():
        deferral = Deferral(script, always)
        try:
            Followed(deferral).number(number)
            _refuse_unmarked(script, number)
            deferrals[read] = deferral
        except Blocked as blocked:
            outcome[read] = Outcome(obstacle=str(blocked))
    for read in reads:
        if read in numbers:
            continue
        try:
            deferral = Deferral(script, always)
            Followed(deferral).tensors(read, list(_tensors(script, read)))
            _refuse_unmarked(script, read)
            deferrals[read] = deferral
        except Blocked as blocked:
            if not _follow_array(script, read, always, numbers, deferrals):
                outcome[read] = Outcome(obstacle=str(blocked))
    _together_with_conditions(script, deferrals.values())
    for group in _groups(deferrals, numbers):
        try:
            edits = tuple(_edits(script, group, deferrals, numbers))
            later = frozenset(
                n for read in group for n in (*deferrals[read].later, *deferrals[read].texts)
            )
            outcome.update((read, Outcome(edits, later=later)) for read in group)
        except Blocked as blocked:
            outcome.update((read, Outcome(obstacle=str(blocked))) for read in group)
    return outcome


def _follow_array(
    script: Script,
    read: ast.AST,
    always: Collection[ast.AST],
    numbers: dict[ast.AST, ast.Call],
    deferrals: dict[ast.AST, Deferral],
) -> bool:
    """True if `read` gives an array of one number that can be followed as one: `total += loss.cpu().numpy()`."""
    array = number_of_numpy(script, read)
    if array is None:
        return False
    deferral = Deferral(script, always)
    try:
        Followed(deferral).number(array)
        _refuse_unmarked(script, array)
    except Blocked:
        return False
    numbers[read], deferrals[read] = array, deferral
    return True


def _tensors(script: Script, read: ast.AST) -> Iterator[ast.expr]:
    """The tensors that `read`, a call or formatting, shows as they are."""
    work: list[ast.AST] = [read.test if isinstance(read, (ast.If, ast.Assert)) else read]
    while work:
        node = work.pop()
        if node is read or not isinstance(node, ast.expr) or isinstance(node, ast.BoolOp):
            work += ast.iter_child_nodes(node)  # each side of `and` and `or` is evaluated
        elif is_device_tensor(script, node):
            yield node
        else:
            work += ast.iter_child_nodes(node)


def _refuse_unmarked(script: Script, node: ast.AST) -> None:
    """Deferred values are fetched at step marks: raise `Blocked` if `node` may run many times without one."""
    calls = reach([node], lambda inner: _calls_around(script, inner))
    marked = [call for call in calls if _marks_steps(script, call)]
    if not marked or any(c not in marked and _repeats(script, c) for c in calls):
        if script.training.loop_of(node) is None and script.function(node) is not None:
            raise Blocked("it is read in a function, whose callers mark no steps")
        raise Blocked("the loop marks no steps")


def _marks_steps(script: Script, node: ast.AST) -> bool:
    """Return True if a loop around `node` marks steps, or its function takes a step."""
    function = script.function(node)
    if function is not None and (
        script.training.function_effects(function) & {STEP, BACKWARD}
        or script.is_called_in_steps(function)
    ):
        return True
    loop, evaluations = script.training.loop_of(node), unmarked_evaluations(script)
    while loop is not None:
        if loop.fed or loop.effects & {STEP, BACKWARD} or loop in evaluations:
            return True
        loop = script.training.loop_of(loop.node)
    return False


def _repeats(script: Script, node: ast.AST) -> bool:
    return any(isinstance(ancestor, _REPEATING) for ancestor in script.ancestors(node))


def _calls_around(script: Script, node: ast.AST) -> list[ast.expr]:
    """Return the calls of the function that `node` stands in, if neither it nor a loop marks steps."""
    function = script.function(node)
    if function is None or _marks_steps(script, node) or _repeats(script, node):
        return []
    calls: list[ast.expr] = [call for call, _ in script.index.calls_of(function.name)]
    if is_property(function):
        calls = [node for node, _ in script.index.attributes(function.name)]
    return [call for call in calls if function not in script.ancestors(call)]


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
    """The reads that end up in the same names or calls, together."""
    groups: list[tuple[set[object], list[ast.AST]]] = []
    for read, deferral in deferrals.items():
        things: set[object] = {
            *deferral.shared,
            *deferral.later,
            *deferral.texts,
            numbers.get(read, read),
        }
        members = [read]
        apart = []
        for others, reads in groups:
            if things.isdisjoint(others):
                apart.append((others, reads))
            else:
                things |= others
                members = [*reads, *members]
        groups = [*apart, (things, members)]
    return [members for _, members in groups]


def _edits(
    script: Script,
    group: list[ast.AST],
    deferrals: dict[ast.AST, Deferral],
    numbers: dict[ast.AST, ast.Call],
) -> Iterable[Edit]:
    all_ = Deferral(script, ())
    for read in group:
        all_.add(deferrals[read])
    shown, texts, extremes, passed = all_.later, all_.texts, all_.extremes, all_.passed
    if not all_.together <= shown.keys():
        raise Blocked("something else is added to the same list at once")
    reads = {numbers[read] for read in group if read in numbers} | all_.read
    in_calls = reads & {node for nodes in (*shown.values(), *texts.values()) for node in nodes}
    asked = {node for statement in extremes for node in walk(statement.test)}
    for number in sorted(reads - in_calls - all_.on_device - asked - passed.keys(), key=_place):
        yield _item(script, number)
    for given, tensor in passed.items():
        if isinstance(given, ast.Name):  # a name for what was read
            yield Replace(given, f"{script.segment(tensor)}.detach()")
        else:
            yield Replace(given, "{0}.detach()", (tensor,))
    for number in sorted(reads & all_.on_device, key=_place):
        alone = "" if is_of_one(script, tensor_of(number)) else ".reshape(())"
        yield Replace(number, f"{{0}}.detach(){alone}", (tensor_of(number),))
    for call, nodes in shown.items():
        _shows_no_other_reads(script, call, reads)
        yield from made_later(script, call, nodes & reads, nodes - reads)
    for text, nodes in texts.items():
        _shows_no_other_reads(script, text, reads)
        yield from computed_later(script, text, nodes & reads, nodes - reads)
    in_texts = {node for text in texts for node in walk(text)}
    for call in sorted(all_.computed - in_texts, key=_place):
        function = script.segment(call.func)
        holes = ", ".join(f"{{{k}}}" for k in range(len(call.args)))
        yield Replace(call, f"{script.xla}.computed({function}, {holes})", tuple(call.args))
    for statement, kept in extremes.items():
        target = kept.target.id
        spelled = f"{target} = {script.xla}.computed({kept.function}, {target}, {{0}})"
        yield from _kept_beside(script, kept)
        yield ReplaceStatement(statement, spelled, (kept.value,))
    for element, index in all_.filled.items():
        (place,) = element.targets
        assert isinstance(place, ast.Subscript)
        spelled = f"{script.xla}.fill({script.segment(place.value)}, {index}, {{0}})"
        yield ReplaceStatement(element, spelled, (element.value,))
    for loop in all_.waited:
        yield InsertAfter(loop, f"{script.xla}.flush()")
    for load in sorted(all_.arrived, key=_place):
        if _is_there_already(script, load):
            continue
        refuse_shown_as_written(script, load)
        yield Replace(load, f"{script.xla}.arrived({{0}})", (load,))


def _kept_beside(script: Script, kept: Extreme) -> Iterator[Edit]:
    """`best_step`, kept where `best` is."""
    chosen = f"lambda kept, new, now, before: now if new {kept.sign} kept else before"
    for other in kept.beside:
        (target,) = other.targets
        name, now = script.segment(target), script.segment(other.value)
        numbers = f"{kept.target.id}, {script.segment(kept.value)}, {now}, {name}"
        yield InsertBefore(kept.statement, f"{name} = {script.xla}.computed({chosen}, {numbers})")


def _is_there_already(script: Script, load: ast.expr) -> bool:
    """True if `load` stands in `xla.arrived(...)` already."""
    match script.parent(load):
        case ast.Call(func=func, args=[given]):
            return given is load and script.dotted(func) == _ARRIVED
    return False


def _item(script: Script, number: ast.expr) -> Edit:
    assert isinstance(number, ast.Call)
    operand = tensor_of(number)
    if isinstance(number.func, ast.Attribute) and number.func.attr == "numpy":  # whose type it has
        name = operand.id if isinstance(operand, ast.Name) else "value"
        spelled = f"{script.xla}.computed(lambda {name}={{0}}: {name}.detach().cpu().numpy())"
        return Replace(number, spelled, (operand,))
    spelled = f"{script.xla}.item({{0}})"
    if may_be_an_integer(script, number, operand):
        spelled = f"{script.xla}.computed(float, {spelled})"
    return Replace(number, spelled, (operand,))


def _shows_no_other_reads(script: Script, call: ast.AST, reads: Collection[ast.AST]) -> None:
    """A read that stays would wait at the same place."""
    for node in walk(call):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in {"item", "tolist", "numpy", "cpu"}
            and not is_unknown_item(node, script)
            and not any(read in reads for read in _chain(node))
        ):
            inside = any(node in walk(read) for read in reads)
            if not inside:
                raise Blocked(f"`{ast.unparse(node)}` is shown with it")


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


def _place(node: ast.expr) -> tuple[int, int]:
    return node.lineno, node.col_offset
