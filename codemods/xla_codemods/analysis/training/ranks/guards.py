"""Tests of the rank: `if rank == 0:` and its relatives."""

from __future__ import annotations

import ast
import re
from collections.abc import Container
from typing import NamedTuple

from ....patterns import Pattern
from ...nodes import walk
from ...syntax import name_of

_RANK = Pattern(
    r"(?:^|_)rank$|^get_(?:global_|local_)?rank$|^(?:local_)?process_index$|^global_ordinal$",
    re.IGNORECASE,
)
_OF_WHAT = r"(?:_(?:process|rank|worker|node|proc|ordinal|gpu|device))?"
_MASTER = Pattern(
    r"^(?:is_|am_|i_am_|ddp_)?(?:local_|global_|world_)?"
    rf"(?:main|master|chief|leader|rank_?(?:0|zero)|(?:process_)?zero_rank|process_(?:0|zero)){_OF_WHAT}$"
    rf"|^(?:is_)?global_zero$|^is_(?:local_|global_)?(?:root|primary|coordinator){_OF_WHAT}$",
    re.IGNORECASE,
)


# What holds a rank besides what is called so: `rank_names(script)`.
Ranks = Container[ast.expr]


class Guard(NamedTuple):
    """The replicas that a test admits: some only; `first` if it is the first one (else all the others)."""

    first: bool


def guard(test: ast.expr, ranks: Ranks = ()) -> Guard | None:
    """Return `test` as a test of the rank; None if all replicas pass, or that is unknown.

    `ranks`: further names that hold a rank (`rank_names`).
    """
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        if _is_rank(test.operand, ranks):
            return Guard(True)
        inner = guard(test.operand, ranks)
        return Guard(not inner.first) if inner is not None else None
    if isinstance(test, ast.BoolOp):
        return _bool(test, ranks)
    if isinstance(test, ast.Compare) and len(test.ops) == 1:
        return _compare(test.left, test.ops[0], test.comparators[0], ranks)
    if _MASTER.search(_last(test)):
        return Guard(True)
    return Guard(False) if _is_rank(test, ranks) else None


def mentions_rank(node: ast.AST, ranks: Ranks = ()) -> bool:
    """True if the value of an expression depends on which replica this is."""
    return any(
        isinstance(part, (ast.Name, ast.Attribute, ast.Subscript)) and _is_rank(part, ranks)
        for part in walk(node)
    )


def named_as_a_rank(node: ast.expr) -> bool:
    """`rank`, `args.local_rank`, `dist.get_rank()`, `rank % gpus_per_node`."""
    return _is_rank(node, ())


def _bool(test: ast.BoolOp, ranks: Ranks) -> Guard | None:
    """`a and rank == 0` admits the first; so does `not distributed or rank == 0` if there are several."""
    found = [g for value in test.values if (g := guard(value, ranks)) is not None]
    return found[0] if found else None


def _compare(left: ast.expr, op: ast.cmpop, right: ast.expr, ranks: Ranks) -> Guard | None:
    if not _is_rank(left, ranks):
        left, right = right, left
    if not _is_rank(left, ranks):
        return None
    if isinstance(op, (ast.Eq, ast.Is)):
        return Guard(True) if _is_zero(right) else None
    if isinstance(op, (ast.NotEq, ast.IsNot, ast.Gt)):
        return Guard(False) if _is_zero(right) else None
    if isinstance(op, (ast.In, ast.NotIn)) and isinstance(right, (ast.List, ast.Tuple, ast.Set)):
        if any(_is_zero(e) for e in right.elts):
            return Guard(isinstance(op, ast.In))
    return None


def is_of_host(test: ast.expr, ranks: Ranks = ()) -> bool:
    """True if a test of the rank is one within the host: `local_rank == 0`, `rank % gpus_per_node == 0`."""
    return any(
        _is_rank_of_host(part)
        or (
            isinstance(part, (ast.Name, ast.Attribute, ast.Subscript))
            and (_is_rank(part, ()) or _MASTER.search(_last(part)) is not None)
            and "local" in _last(part).lower()
        )
        or (isinstance(part, (ast.Name, ast.Attribute)) and _is_another(part, ranks))
        for part in walk(test)
        if isinstance(part, ast.expr)
    )


def _is_another(node: ast.expr, ranks: Ranks) -> bool:
    """`gpu`: who calls a rank by another name means the device on this host."""
    return not _is_rank(node, ()) and node in ranks


def _is_rank_of_host(node: ast.expr) -> bool:
    return isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod) and _is_rank(node.left, ())


def _is_rank(node: ast.expr, ranks: Ranks) -> bool:
    if _is_rank_of_host(node):
        return True
    return _RANK.search(_last(node)) is not None or node in ranks


def _is_zero(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value == 0


def _last(node: ast.expr) -> str:
    """The last name of what is tested, called or not."""
    if isinstance(node, ast.Call):
        node = node.func
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
        return str(node.slice.value).lower()
    return name_of(node)
