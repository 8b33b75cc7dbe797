"""The first operation inside a wrong module whose result, or whose gradient, differs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from typing import NamedTuple

from ..judge.details import ModuleCalls, Operation, Operations
from ..observe.plan import INPUT
from .first_wrong_module import JUMP, SURE, CallPair, WrongModule, difference, gradients_of

_MOST_NAMED = 3  # operations in one sentence
_OF_PARAMETER = "the gradient of its "  # how `WrongModule.what` begins


class StepDetails(NamedTuple):
    """The record of one step: the calls of modules, and operations inside them."""

    modules: ModuleCalls
    operations: Operations


class _Pair(NamedTuple):
    """The operations of both runs inside the wrong module, and which of them are the same: numbers of results."""

    reference: Operations
    target: Operations
    theirs: Sequence[int]
    ours: Sequence[int]
    same: Mapping[int, int]

    def apart(self, i: int) -> float:
        return difference(self.reference.results[i], self.target.results[self.same[i]])


def first_wrong_operation(
    reference: StepDetails, target: StepDetails, wrong: WrongModule, *, is_given: bool
) -> str:
    """Return a sentence part on the operation at fault.

    Args:
        reference: of the original.
        target: of the migrated script.
        wrong: the module at fault.
        is_given: the migrated script's module was given the original's input and parameters.
    """
    calls = CallPair(reference.modules, target.modules)
    pair = _pair(reference, target, wrong)
    if not pair.theirs or not pair.ours:
        whose = "the migrated script" if pair.theirs else "the original"
        return f"no operation inside it was recorded in {whose}"
    if not wrong.is_forward:
        return _backward(pair, calls.scale(), wrong)
    found = _forward(pair, wrong)
    if not is_given:
        return found
    if _output_agrees(reference, target, calls, wrong):
        return "given the original's input, its output agrees: something before it differs in elements that were not recorded"
    return f"confirmed with the original's input: {found}"


def _pair(reference: StepDetails, target: StepDetails, wrong: WrongModule) -> _Pair:
    theirs, ours = ([*_within(step, wrong.call)] for step in (reference, target))
    a, b = reference.operations, target.operations
    names = [a.calls[i].name for i in theirs], [b.calls[j].name for j in ours]
    blocks = SequenceMatcher(None, *names, autojunk=False).get_matching_blocks()
    same = {theirs[i + n]: ours[j + n] for i, j, count in blocks for n in range(count)}
    return _Pair(a, b, theirs, ours, same)


def _within(step: StepDetails, key: tuple[str, int]) -> Iterator[int]:
    """Yield the numbers of the results inside a module's call, and inside the calls that it makes."""
    times = 0
    inside: set[int] = set()
    for number, call in enumerate(step.modules.calls):
        times += call.name == key[0]
        if (call.name == key[0] and times == key[1]) or call.around in inside:
            inside.add(number)
    return (i for i, one in enumerate(step.operations.calls) if one.call in inside)


def _output_agrees(
    reference: StepDetails, target: StepDetails, pair: CallPair, wrong: WrongModule
) -> bool:
    call = pair.keys.index(wrong.call)
    outputs = [(place, t) for c, side, place, t in reference.modules.uses if (c, side) == (call, 1)]
    for place, tensor in outputs:
        other = pair.same_use(call, 1, place)
        if other is None:
            return False
        if difference(reference.modules.tensors[tensor], target.modules.tensors[other]) > SURE:
            return False
    return bool(outputs)


def _forward(pair: _Pair, wrong: WrongModule) -> str:
    agree = wrong.agree
    a, b = -1, -1  # the last results that agree
    for i, j in pair.same.items():
        apart = pair.apart(i)
        if apart > max(SURE, JUMP * agree):
            theirs = [pair.reference.calls[n] for n in pair.theirs if a < n < i]
            ours = [pair.target.calls[n] for n in pair.ours if b < n < j]
            if theirs or ours:
                return (
                    f"the original calls {_named(theirs)}, the migrated script calls {_named(ours)}"
                )
            return f"first in {pair.target.calls[j]}, by {apart:.1e}"
        agree, a, b = max(agree, apart), i, j
    return "the operations inside it that both call agree"


def _backward(pair: _Pair, scale: float, wrong: WrongModule) -> str:
    """Return what passes back the first wrong gradient, from the module's output on."""
    agree = wrong.agree
    mine = {(n, k): row for n, k, row in gradients_of(pair.target)}
    for i, k, row in gradients_of(pair.reference):
        j = pair.same.get(i)
        if (
            j is None or not pair.target.calls[j].requires_grad
        ):  # then an operation before it is at fault
            continue
        ours = mine.get((j, k))
        apart = float("inf") if ours is None else difference(row, ours, scale)
        if apart > max(SURE, JUMP * agree):
            who = _takers(pair, i, j)
            return f"the gradient of the result of {pair.target.calls[j]} differs by {apart:.1e}: {who}"
        agree = max(agree, apart)
    place = wrong.what.removeprefix(_OF_PARAMETER) if _OF_PARAMETER in wrong.what else INPUT
    return f"the gradients of all results inside it agree: {_takers(pair, place, place)}"


def _takers(pair: _Pair, theirs: int | str, ours: int | str) -> str:
    """Return who takes a result, a parameter or the input: they pass its gradient back."""
    a = [one for n in pair.theirs if theirs in (one := pair.reference.calls[n]).takes]
    b = [one for n in pair.ours if ours in (one := pair.target.calls[n]).takes]
    if [one.name for one in a] != [one.name for one in b]:
        return (
            f"the original passes it to {_named(a)}, the migrated script passes it to {_named(b)}"
        )
    if not b:
        return "no function of torch takes it, so look at autograd functions and hooks"
    return f"look at {_named(b)}, and at hooks"


def _named(calls: Sequence[Operation]) -> str:
    shown = ", ".join(map(str, calls[:_MOST_NAMED]))
    return (shown or "no function") + (", ..." if len(calls) > _MOST_NAMED else "")
