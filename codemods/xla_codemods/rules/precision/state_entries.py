"""The state of what is gone leaves the checkpoints that it is written to."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, NamedTuple

from ...edits import DropArgument, DropEntry, Edit, Replace, remove

if TYPE_CHECKING:
    from ...script import Script


class Dropped(NamedTuple):
    """How a state is dropped: with the statement that stored it, with its entry in a dict, or replaced by `{}`."""

    edit: Edit
    statement: ast.stmt | None = None
    value: ast.expr | None = None


def drop_state(script: Script, call: ast.Call) -> Dropped:
    """What becomes of `x.state_dict()`, also of `x.state_dict() if x else None`."""
    node: ast.expr = call
    parent = script.parent(call)
    while (
        isinstance(parent, ast.IfExp)
        and node is not parent.test
        and _is_empty(_other(parent, node))
    ):
        node, parent = parent, script.parent(parent)
    if isinstance(parent, ast.Dict):
        key = parent.keys[parent.values.index(node)]
        if key is not None:
            return Dropped(DropEntry(parent, key), value=node)
    if isinstance(parent, ast.keyword):
        outer = script.parent(parent)
        if isinstance(outer, ast.Call) and getattr(outer.func, "id", "") == "dict":
            return Dropped(DropArgument(outer, parent), value=node)
    if isinstance(parent, ast.Assign) and isinstance(parent.targets[0], ast.Subscript):
        return Dropped(remove(parent), statement=parent)
    return Dropped(Replace(node, "{}"))


def _other(node: ast.IfExp, one: ast.expr) -> ast.expr:
    return node.orelse if one is node.body else node.body


def _is_empty(node: ast.expr) -> bool:
    if isinstance(node, ast.Dict):
        return not node.keys
    return isinstance(node, ast.Constant) and node.value is None
