"""Devices that stay numbers where they are made, because the code compares them with numbers or calculates with them."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from ..syntax import unparsed

if TYPE_CHECKING:
    from ..index import Index
    from ..scopes import Scope


def is_calculated_with(index: Index, device: ast.expr, scope: Scope) -> bool:
    """True if something else than a device would fail or change the meaning there: `if device < 0:`, `device + 1`.

    `device` is a name, attribute or subscript, and stands in `scope`.
    """
    if isinstance(device, ast.Name):
        found = scope.find(device.id)
        uses: list[ast.expr] = []
        if found is not None:
            uses = [node for node, _ in index.names_of(found[0], device.id)]
    else:
        text = unparsed(device)
        uses = [node for node, _ in index.of(type(device)) if unparsed(node) == text]
    return any(_is_operand(index.parents.get(use)) for use in uses)


def _is_operand(around: ast.AST | None) -> bool:
    if isinstance(around, ast.Compare):
        return any(map(_is_number, (around.left, *around.comparators)))
    return isinstance(around, (ast.AugAssign, ast.BinOp)) or (
        isinstance(around, ast.UnaryOp) and not isinstance(around.op, ast.Not)
    )


def _is_number(node: ast.expr) -> bool:
    if isinstance(node, ast.UnaryOp):
        node = node.operand
    return isinstance(node, ast.Constant) and type(node.value) is int
