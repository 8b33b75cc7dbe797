"""`if args.cuda: x = x.cuda()`: the flag that decides whether a loop moves its batches."""

from __future__ import annotations

import ast
import re

from ...flow.calls import argument, called
from ...patterns import Pattern
from ..devices.availability import asks_availability
from ..nodes import walk
from ..script import Script
from ..syntax import walk_body
from .loaders import Driver
from .training import Loop

# What such a test reads: a flag, the number or the name of a device.
_FLAG = Pattern(r"cuda|gpu|accel", re.IGNORECASE)
_ASKED = Pattern(r"cuda|gpu|accel|cpu|device", re.IGNORECASE)


def flag_of_moves(script: Script, loop: Loop, driver: Driver) -> str | None:
    """Return the text of the test that guards every move of the batch in `loop`, if there is one that is known at the
    loader's line, and that may be false although there is an accelerator.
    """
    tests = [
        _test_around(script, move, loop) for move in script.training.batches.flow(loop.node).moves
    ]
    if not tests or None in tests or len({ast.dump(t) for t in tests if t is not None}) != 1:
        return None
    test = tests[0]
    assert test is not None
    there, here = script.index.scope(driver.node), script.index.scope(loop.node)
    for name in (node for node in walk(test) if isinstance(node, ast.Name)):
        if _is_bound_in(loop, name.id) or there.find(name.id) != here.find(name.id):
            return None
    if asks_availability(
        script, test
    ):  # without an accelerator, a device loader moves nothing anyway
        return None
    return _text(script, test) or None


def _test_around(script: Script, move: ast.AST, loop: Loop) -> ast.expr | None:
    """Return the flag that decides in `loop` if `move` moves, also in the function that it calls."""
    test = _outermost_test(script, move, loop.node)
    function = called(script, move) if isinstance(move, ast.Call) and test is None else None
    if function is None or not isinstance(move, ast.Call):
        return test
    calls = (node for node in walk_body(function.body) if isinstance(node, ast.Call))
    inner = filter(script.training.batches.is_move, calls)
    tests = [_outermost_test(script, each, function) for each in inner]
    names = {each.id if isinstance(each, ast.Name) else "" for each in tests}
    given = argument(script, names.pop(), function, move) if len(names) == 1 else None
    return given if given is not None and _text(script, given) else None


def _outermost_test(script: Script, move: ast.AST, around: ast.AST) -> ast.expr | None:
    """Return the test of the outermost `if flag:` in `around` in whose body `move` stands, or of
    `move if flag else x`.
    """
    found = None
    for child, ancestor in script.upward(move):
        if ancestor is around:
            return found
        match ancestor:
            case ast.If(test=test, body=list(body)) if child in body:
                found = test if _text(script, test) else found
            case ast.IfExp(test=test, body=body) if child is body:
                found = test if _text(script, test) else found
            case ast.If(test=test, orelse=list(other)) if child in other:
                found = _negated(script, test) or found
            case ast.IfExp(test=test, orelse=other) if child is other:
                found = _negated(script, test) or found
    return None


def _negated(script: Script, test: ast.expr) -> ast.expr | None:
    """Return the opposite of the flag `test`; None for other tests."""
    negated = ast.UnaryOp(ast.Not(), test)
    return negated if _text(script, negated) else None


def _text(script: Script, test: ast.expr) -> str | None:
    """Return `test` after the rewrite; empty if it only tests for an accelerator, None for other tests."""
    if asks_availability(script, test) and not isinstance(test, ast.Name):
        return ""
    match test:
        case ast.Name() | ast.Attribute():
            return script.segment(test) if _FLAG.search(ast.unparse(test)) else None
        case ast.UnaryOp(op=ast.Not(), operand=ast.Name() | ast.Attribute() as flag):
            return f"not {script.segment(flag)}" if _ASKED.search(ast.unparse(flag)) else None
        case ast.BoolOp(op=ast.And(), values=values):
            texts = [_text(script, value) for value in values]
            return None if None in texts else " and ".join(t for t in texts if t)
        case ast.Compare(left=left, ops=[ast.Eq()], comparators=[ast.Constant(value="cuda")]):
            is_device = isinstance(left, (ast.Name, ast.Attribute)) and script.devices.is_device(
                left
            )
            return f"{script.xla}.is_accelerator({script.segment(left)})" if is_device else None
        # Of a number that is None all devices are meant: `if args.gpu is not None:`, else DataParallel.
        case ast.Compare(
            left=ast.Call(func=ast.Name(id="len"), args=[tested]) | tested,
            ops=[ast.NotEq() | ast.Gt() | ast.GtE()],
            comparators=[right],
        ) if _is_plain(right) and isinstance(tested, (ast.Name, ast.Attribute)):
            return script.segment(test) if _ASKED.search(ast.unparse(tested)) else None
    return None


def _is_plain(node: ast.expr) -> bool:
    """`-1`, `0`, "cpu"."""
    if isinstance(node, ast.UnaryOp):
        node = node.operand
    return isinstance(node, ast.Constant) and (
        not isinstance(node.value, str) or node.value == "cpu"
    )


def _is_bound_in(loop: Loop, name: str) -> bool:
    return any(
        isinstance(node, ast.Name) and node.id == name and not isinstance(node.ctx, ast.Load)
        for node in walk(loop.node)
    )
