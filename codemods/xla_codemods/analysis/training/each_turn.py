"""Conditions that count turns, and by default hold in each: `if step % log_interval == 0`, of `log_interval = 1`."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..script import Script


def besides_each_turn(script: Script, test: ast.expr) -> list[ast.expr]:
    """Return the conditions that `test` joins with `and`, without those that hold in each turn."""
    parts = [test]
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And):
        parts = test.values
    return [part for part in parts if not _holds_in_each_turn(script, part)]


def _holds_in_each_turn(script: Script, test: ast.expr) -> bool:
    match test:
        case ast.Compare(
            left=ast.BinOp(op=ast.Mod(), right=every),
            ops=[ast.Eq()],
            comparators=[ast.Constant(value=0)],
        ):
            return getattr(script.only_value(every) or every, "value", None) == 1
    return False
