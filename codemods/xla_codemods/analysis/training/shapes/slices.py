"""Slices and indices of tensors: which part of an index moves, and how long it is."""

from __future__ import annotations

import ast
from collections.abc import Callable

from ...inference.values import ACCEL, BATCH, TENSOR
from ...parsed_file import ParsedFile
from .counters import is_sum


def is_on_device(script: ParsedFile, node: ast.expr, index: ast.expr | None = None) -> bool:
    """True if `node` is a tensor of the device: a batch that takes several indices at once is one, too."""
    value = script.value(node)
    if not (value.has(TENSOR) and value.has(ACCEL)):
        return False
    return not value.has(BATCH) or isinstance(index, ast.Tuple)


def moving_part(
    index: ast.expr, moves: Callable[[ast.expr], bool]
) -> tuple[int, ast.expr, bool] | None:
    """The first part of `index` that moves, with its dimension, and whether all of every other dimension is taken."""
    parts = index.elts if isinstance(index, ast.Tuple) else [index]
    moving = [(dim, part) for dim, part in enumerate(parts) if _moves(part, moves)]
    if not moving:
        return None
    dim, part = moving[0]
    alone = len(moving) == 1 and all(is_whole(p) for k, p in enumerate(parts) if k != dim)
    return dim, part, alone


def _moves(part: ast.expr, moves: Callable[[ast.expr], bool]) -> bool:
    if isinstance(part, ast.Slice):
        return any(edge is not None and moves(edge) for edge in (part.lower, part.upper))
    return moves(part)


def is_whole(part: ast.expr) -> bool:
    """`:`."""
    return isinstance(part, ast.Slice) and not (part.lower or part.upper or part.step)


def length_of(part: ast.Slice) -> ast.expr | None:
    """The length of `i : i + n`, where both ends say so."""
    if part.step is not None or part.lower is None or part.upper is None:
        return None
    return is_sum(part.upper, part.lower)
