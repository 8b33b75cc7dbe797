"""float16 that XLA would compute in after the rewrite, since a flag for CUDA or a test for the CPU chooses it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

from ....edits import Replace
from ....flow.conditions import conditions
from ....patterns import Pattern
from ...devices.availability import asks_availability
from ...devices.checks.flags import is_flag, is_question, questions_of
from ...inference.library_types import RUNTIME
from ...nodes import walk
from ...script import Script
from ...syntax import is_literal
from .chosen_half import (
    Choice,
    bfloat16_instead,
    branches,
    choice_by,
    chosen_in,
    half_chosen_by,
    half_chosen_by_flag,
    has_half,
)

_CUDA = "torch.cuda.is_available"
# Devices that are neither CUDA nor the CPU: a test for the CPU chooses float16 for them, too.
_OTHERS = Pattern(r"\b(?:mps|xpu|npu|hpu|mlu)\b")
_SAME_AS = {"torch.float16", "torch.half"}


class HalfOnXla(NamedTuple):
    """float16 values that XLA would compute in. `edits` keep the precision that the script has without CUDA."""

    values: list[ast.expr]
    edits: list[Replace]


def halves_on_xla(script: Script) -> list[HalfOnXla]:
    """Return all of a script. If one cannot keep its precision, none does: the types of tensors would differ."""
    found = [*_chosen(script), *_by_flags(script)]
    is_known = all(each.edits for each in found)
    return found if is_known else [each._replace(edits=[]) for each in found]


def chosen_for_cuda_alone(script: Script) -> Iterator[tuple[ast.expr, list[Replace]]]:
    """Yield the expressions that become a test for CUDA, with the edits that choose bfloat16 instead."""
    if "half" not in script.source.names and not script.source.mentions("16"):
        return
    for found in script.cached(halves_on_xla):
        tests = [edit.node for edit in found.edits]
        if tests == found.values:
            for value in found.values:
                yield value, bfloat16_instead(script, [value])
        elif tests:
            yield tests[0], bfloat16_instead(script, found.values)


def is_for_cuda_alone(script: Script, node: ast.expr) -> bool:
    """Return True if a test for CUDA, which is False on XLA, chooses the float16 value `node`."""
    tests = (test for test, _ in conditions(script, node, refusals=False))
    parts = (part for test in tests for part in walk(test) if isinstance(part, ast.expr))
    questions = (part for part in parts if is_question(script, part) and _stays(script, part))
    return any(node in half_chosen_by(script, question) for question in questions)


def _chosen(script: Script) -> Iterator[HalfOnXla]:
    choices: list[Choice] = [choice for choice, _ in script.index.of(ast.If)]
    choices += [choice for choice, _ in script.index.of(ast.IfExp)]
    for choice in choices:
        if not any(has_half(script, branch) for branch in branches(script, choice)):
            continue
        parts = [part for part in walk(choice.test) if isinstance(part, ast.expr)]
        tests = [part for part in parts if is_question(script, part) or is_flag(script, part)]
        if not tests:
            continue
        chosen = chosen_in(script, choice, tests[0], choice_by(script, tests[0])[1])
        if not chosen.values or (chosen.is_all and any(_stays(script, q) for q in tests)):
            continue
        if chosen.is_all:
            yield HalfOnXla(chosen.values, for_cuda_only(script, tests[0]))
        else:
            yield HalfOnXla(chosen.values, _each_for_cuda_only(script, choice, chosen.values))


def _by_flags(script: Script) -> Iterator[HalfOnXla]:
    """`half = device.type != "cpu"`, which is True on XLA."""
    for test, _ in script.index.of(ast.Compare):
        if is_question(script, test) and not _stays(script, test):
            if choice_by(script, test)[1] and (values := half_chosen_by_flag(script, test)):
                yield HalfOnXla(values, for_cuda_only(script, test))


def is_true_on_xla(script: Script, test: ast.expr) -> bool:
    """Return True if a flag in `test` is set by a test for an accelerator that XLA passes."""
    return any(
        not _stays(script, question)
        for part in walk(test)
        if isinstance(part, (ast.Name, ast.Attribute))
        for question in questions_of(script, part)
    )


def _stays(script: Script, test: ast.expr) -> bool:
    """Return True if the test is False on XLA as it is written, so that its own rule reports it."""
    match test:
        case ast.Attribute(attr="is_cuda"):
            return True
        case ast.Compare():
            return not any(is_literal(part, "cpu") for part in (test.left, *test.comparators))
        case ast.Call(func=func):
            return not (script.dotted(func) or "").startswith(RUNTIME)
    return False


def for_cuda_only(script: Script, test: ast.expr) -> list[Replace]:
    """Return the edit that makes `test` test for CUDA, if that is known to mean the same elsewhere."""
    cuda = f"{script.spell(_CUDA, script.index.scope(test))}()"
    match test:
        case ast.Compare(left=ast.Attribute(attr="type") as left, ops=[op]):
            if _OTHERS.search(script.source.text):
                return []
            new = "!=" if isinstance(op, ast.Eq) else "=="
            return [Replace(test, f'{{0}} {new} "cuda"', (left,))]
        case ast.Name() if asks_availability(script, test):
            return [Replace(test, cuda)]
        case ast.Name() | ast.Attribute() | ast.Subscript():
            text = f"{{0}} and {cuda}"
            around = script.parent(test)
            is_plain = isinstance(around, (ast.If, ast.IfExp)) or (
                isinstance(around, ast.BoolOp) and isinstance(around.op, ast.And)
            )
            return [Replace(test, text if is_plain else f"({text})", (test,))]
    return []


def _each_for_cuda_only(script: Script, choice: Choice, values: list[ast.expr]) -> list[Replace]:
    """Return edits that choose each value by itself, if the other branch tells the precision without CUDA."""
    edits = [_with_other(script, choice, value) for value in values]
    return [edit for edit in edits if edit is not None] if None not in edits else []


def _with_other(script: Script, choice: Choice, value: ast.expr) -> Replace | None:
    other = _other_value(script, choice, value)
    if other is None or script.dotted(other) is None or script.dotted(other) in _SAME_AS:
        return None
    cuda = f"{script.spell(_CUDA, script.index.scope(value))}()"
    text = f"{{0}} if {cuda} else {script.segment(other)}"
    is_element = isinstance(script.parent(value), (ast.Tuple, ast.List))
    return Replace(value, f"({text})" if is_element else text, (value,))


def _other_value(script: Script, choice: Choice, value: ast.expr) -> ast.expr | None:
    """Return what the other branch of `choice` assigns where this one assigns `value`."""
    parent = script.parent(value)
    place = parent.elts.index(value) if isinstance(parent, (ast.Tuple, ast.List)) else None
    whole = parent if place is not None else value
    if isinstance(choice, ast.IfExp):
        other: ast.expr | None = choice.orelse if whole is choice.body else choice.body
    else:
        statement = script.statement(value)
        if not isinstance(statement, ast.Assign) or statement.value is not whole:
            return None
        targets = [ast.unparse(target) for target in statement.targets]
        block = choice.orelse if statement in choice.body else choice.body
        others = [
            s.value
            for s in block
            if isinstance(s, ast.Assign) and [ast.unparse(t) for t in s.targets] == targets
        ]
        other = others[0] if len(others) == 1 else None
    if place is None:
        return other
    if isinstance(other, (ast.Tuple, ast.List)) and len(other.elts) == len(parent.elts):  # type: ignore[union-attr]
        return other.elts[place]
    return None
