"""The conditions under which code runs, and their results: True, False or unknown."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from itertools import product
from typing import Protocol, TypeVar

T = TypeVar("T")
_MOST = 8  # unknown parts that `settled` tries out
_LEAVES = (ast.Raise, ast.Return, ast.Continue, ast.Break)


class _File(Protocol):
    """One parsed file. Scripts have these methods."""

    def cached(self, find: Callable[..., T], *of: object) -> T: ...
    def ancestors(self, node: ast.AST) -> Iterator[ast.AST]: ...
    def upward(self, node: ast.AST) -> Iterator[tuple[ast.AST, ast.AST]]: ...
    def block(self, statement: ast.stmt) -> list[ast.stmt]: ...


def conditions(
    file: _File, node: ast.AST, *, refusals: bool = True
) -> Iterator[tuple[ast.expr, bool]]:
    """Yield the tests that decide if `node` runs, each with the result that lets it run.

    Nearer tests come first. `refusals`: also tests that raise an exception otherwise.
    """
    for child, around in file.upward(node):
        if isinstance(child, ast.stmt):
            yield from file.cached(_of_earlier, child, refusals)
        match around:
            case ast.If(test=test) | ast.IfExp(test=test) if child is not test:
                yield test, is_in_body(child, around)
            case ast.BoolOp(op=op, values=values):
                for value in values:
                    if value is not child:
                        yield value, isinstance(op, ast.And)


def _of_earlier(file: _File, statement: ast.stmt, refusals: bool) -> list[tuple[ast.expr, bool]]:
    """Return the tests before `statement` in its block that leave the block, each with the result that does not."""
    found: list[tuple[ast.expr, bool]] = []
    leaves = _LEAVES if refusals else _LEAVES[1:]
    for earlier in before(file, statement):
        match earlier:
            case ast.Assert(test=test) if refusals:
                found.append((test, True))
            case ast.If(test=test, body=[*_, last], orelse=[]) if isinstance(last, leaves):
                found.append((test, False))
    return found


def whole(file: _File, test: ast.expr) -> ast.expr:
    """Return the condition that `test` is a part of, joined by `not`, `and` and `or`."""
    for around in file.ancestors(test):
        if not isinstance(around, (ast.BoolOp, ast.UnaryOp)):
            break
        test = around
    return test


def before(file: _File, statement: ast.stmt) -> list[ast.stmt]:
    """Return the statements before `statement` in its block."""
    block = file.block(statement)
    return block[: block.index(statement)]


def after(file: _File, statement: ast.stmt) -> list[ast.stmt]:
    """Return the statements after `statement` in its block."""
    block = file.block(statement)
    return block[block.index(statement) + 1 :]


def is_in_body(child: ast.AST, branch: ast.If | ast.IfExp) -> bool:
    """Return True if `child` is the branch that runs if the test is True."""
    return child in branch.body if isinstance(branch, ast.If) else child is branch.body


def truth(test: ast.expr, known: Callable[[ast.expr], bool | None]) -> bool | None:
    """Return the result of `test`, None if unknown. `known` returns the results of its parts."""
    result = known(test)
    if result is not None:
        return result
    match test:
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            inner = truth(operand, known)
            return None if inner is None else not inner
        case ast.BoolOp(op=op, values=values):
            results = {truth(value, known) for value in values}
            decisive = isinstance(op, ast.Or)
            if decisive in results:
                return decisive
            return None if None in results else not decisive
        case ast.Compare(
            left=inner, ops=[op], comparators=[ast.Constant(value=(bool() | None) as other)]
        ):
            result = truth(inner, known)
            if result is None or (other is None and not result):
                return None
            is_equal = result is other
            return is_equal if isinstance(op, (ast.Is, ast.Eq)) else not is_equal
        case ast.Call(func=ast.Name(id="bool"), args=[inner]):
            return truth(inner, known)
    return None


def is_excluded(file: _File, node: ast.AST, known: Callable[[ast.expr], bool | None]) -> bool:
    """Return True if a condition of `node` does not have the result that lets `node` run."""
    tests = conditions(file, node)
    return any(truth(test, known) is (not needed) for test, needed in tests)


def settled(test: ast.expr, known: Callable[[ast.expr], bool | None]) -> bool | None:
    """Return the result of `test` if it is the same for every result of its unknown parts.

    `not a or a and b` is True if `b` is.
    """
    names = {ast.unparse(part) for part in _operands(test) if truth(part, known) is None}
    results = set()
    for values in product((True, False), repeat=min(len(names), _MOST)):
        assumed = dict(zip(sorted(names), values))

        def result(part: ast.expr, assumed: dict[str, bool] = assumed) -> bool | None:
            found = known(part)
            return assumed.get(ast.unparse(part)) if found is None else found

        results.add(truth(test, result))
    return results.pop() if len(results) == 1 else None


def _operands(test: ast.expr) -> list[ast.expr]:
    """Return the parts of `test` that `not`, `and` and `or` join."""
    match test:
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return _operands(operand)
        case ast.BoolOp(values=values):
            return [part for value in values for part in _operands(value)]
    return [test]
