"""Conditions in loops: those that hold now and then, and those that hold in all turns but a few."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from functools import partial

from ..flow.calls import File
from ..flow.closure import all_ends
from ..flow.edges import sources
from ..patterns import Pattern
from .nodes import walk
from .syntax import is_literal, name_of, text_of

# What is done now and then, by the names in its condition.
_SOMETIMES = Pattern(
    r"log|print|verbose|debug|report|interval|every|freq|eval|valid|save|checkpoint|plot|sample|profil|first|last",
    re.IGNORECASE,
)
# What holds options, and the options that are counted up nevertheless.
_OPTIONS = Pattern(
    r"^(?:\w+_)?(?:args|cfg|conf|config|hparams|opts?|options|settings)$", re.IGNORECASE
)
_COUNTED = Pattern(r"epoch|iter|step", re.IGNORECASE)
_PARTS = (ast.Attribute, ast.Name)


def is_usual(test: ast.expr) -> bool:
    """`step % 10 != 0`, `step % 10`, `not args.log and step % 10`: true in all turns but a few."""
    match test:
        case ast.BoolOp(values=values):
            return any(is_usual(value) for value in values)
        case ast.Compare(
            left=ast.BinOp(op=ast.Mod(), left=counted), ops=[ast.NotEq() | ast.Gt() | ast.Lt()]
        ):
            return not isinstance(counted, ast.Constant)
        case ast.Compare(ops=[ast.Lt() | ast.NotEq()], comparators=[end]):  # all but the last
            return any(
                isinstance(n, ast.Call) and getattr(n.func, "id", "") == "len" for n in walk(end)
            )
        case ast.BinOp(op=ast.Mod(), left=counted):
            return not isinstance(counted, ast.Constant)
        case ast.UnaryOp(
            op=ast.Not(),
            operand=ast.Compare(left=ast.BinOp(op=ast.Mod(), left=counted), ops=[ast.Eq()]),
        ):
            return not isinstance(counted, ast.Constant)
        case ast.UnaryOp(op=ast.Not(), operand=ast.Name(id=name) | ast.Attribute(attr=name)):
            return _SOMETIMES.search(name) is not None
    return False


def is_rare(file: File, test: ast.expr, is_number: Callable[[ast.expr], bool]) -> bool:
    """`step % 10 == 0`, `step == 0`, `if args.log:`; not `rank == 0`, which in one process is always so.

    is_number: Return True for numbers; steps are compared with them.
    """
    for node in (n for part in _besides_each_turn(file, test) for n in walk(part)):
        match node:
            case ast.BinOp(op=ast.Mod(), left=left) if not isinstance(left, ast.Constant):
                return True
            case ast.Compare(
                left=left, ops=[ast.Eq() | ast.GtE() | ast.In()], comparators=[right]
            ) if not (_asks_for_rank(left) or _is_an_option(left)):
                if is_number(left) or is_number(right):
                    return True
            case ast.Name(id=name) | ast.Attribute(attr=name) if _SOMETIMES.search(name):
                return True
            case ast.Constant(value=str(text)) if text.lower() in {"debug", "verbose"}:
                return True  # os.environ.get("DEBUG")
    return False


def _besides_each_turn(file: File, test: ast.expr) -> list[ast.expr]:
    """Return the conditions that `test` joins with `and`, without those that hold in each turn by default."""
    parts = test.values if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And) else [test]
    return [part for part in parts if not _holds_in_each_turn(file, part)]


def _holds_in_each_turn(file: File, test: ast.expr) -> bool:
    """`step % log_interval == 0`, of `log_interval = 1`, or of a parameter that is 1 unless a call of the file passes more."""
    match test:
        case ast.Compare(
            left=ast.BinOp(op=ast.Mod(), right=every),
            ops=[ast.Eq()],
            comparators=[ast.Constant(value=0)],
        ):
            known = partial(sources, file)
            return all_ends([every], known, lambda end: is_literal(end, 1))
    return False


def _is_an_option(node: ast.expr) -> bool:
    """Return True for `args.augment_p` and `cfg["loss"].kind`, which are the same in each step."""
    name = text_of(node.slice) if isinstance(node, ast.Subscript) else name_of(node)
    owners = [inner for inner in walk(node) if inner is not node and isinstance(inner, _PARTS)]
    is_option = any(_OPTIONS.search(name_of(owner)) for owner in owners)
    return is_option and _COUNTED.search(name or "") is None


def _asks_for_rank(node: ast.expr) -> bool:
    """`rank`, `args.local_rank`, `dist.get_rank()`."""
    if isinstance(node, ast.Call):
        node = node.func
    name = name_of(node)
    return "rank" in name.lower()
