"""`if args.cuda: x = x.cuda()`: the flag that decides whether a loop moves its batches."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from ...patterns import Pattern
from ..devices.availability import asks_availability
from ..nodes import walk
from .loaders import Driver
from .training import Loop

if TYPE_CHECKING:
    from ..script import Script

# What a flag is called that stands for "compute on the accelerator".
_FLAG = Pattern(r"cuda|gpu|accel", re.IGNORECASE)


def flag_of_moves(script: Script, loop: Loop, driver: Driver) -> str | None:
    """The text of the flag that guards every move of the batch in `loop`, if there is one that is known where the
    loader is named, and that may be off although there is an accelerator.
    """
    tests = [
        _flag_around(script, move, loop) for move in script.training.batches.flow(loop.node).moves
    ]
    if not tests or None in tests or len({ast.dump(t) for t in tests if t is not None}) != 1:
        return None
    flag = tests[0]
    assert flag is not None
    root: ast.expr = flag
    while isinstance(root, ast.Attribute):
        root = root.value
    if not isinstance(root, ast.Name) or _is_bound_in(loop, root.id):
        return None
    if driver.scope.find(root.id) != loop.scope.find(root.id):
        return None
    if asks_availability(script, flag):  # where that is off, a device loader moves nothing anyway
        return None
    return ast.unparse(flag)


def _flag_around(script: Script, move: ast.AST, loop: Loop) -> ast.Name | ast.Attribute | None:
    """The test of the outermost `if flag:` in `loop` in whose body `move` stands."""
    found = None
    child = move
    for ancestor in script.ancestors(move):
        if ancestor is loop.node:
            return found
        if isinstance(ancestor, ast.If) and child in ancestor.body:
            test = ancestor.test
            if isinstance(test, (ast.Name, ast.Attribute)) and _FLAG.search(ast.unparse(test)):
                found = test
        child = ancestor
    return None


def _is_bound_in(loop: Loop, name: str) -> bool:
    return any(
        isinstance(node, ast.Name) and node.id == name and not isinstance(node.ctx, ast.Load)
        for node in walk(loop.node)
    )
