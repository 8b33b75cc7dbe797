"""The edits that defer one host read, as the value is followed to the code that uses it."""

from __future__ import annotations

import ast
from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from .calls import Shown
from .functions import Extreme

if TYPE_CHECKING:
    from ...script import Script


class Deferral:
    """One host read, and what it takes to defer it.

    Attributes:
        script: The file that reads.
        always: The nodes that run in every step.
        later: Calls and statements to run later, each with the deferred values in it.
        texts: Texts to compute later, each with the deferred values in it.
        arrived: Expressions that need Python's own number.
        computed: Calls of functions of numbers: `min(best, value)`.
        extremes: `if value > best: best = value`.
        on_device: Reads that are added to a tensor of the device, and stay there.
        passed: Reads in whose place the tensor itself is passed, with that tensor.
        filled: Assignments to elements of arrays, each with its index.
        read: Reads of whole tensors in calls that run later.
        together: Calls that have to run later for this one to run later.
        waited: Loops after which everything is waited for.
        shared: Names and attributes that hold the value: reads that share one are edited together.
    """

    def __init__(self, script: Script, always: Collection[ast.AST]) -> None:
        self.script = script
        self.always = always
        self.later: dict[Shown, set[ast.AST]] = {}
        self.texts: dict[ast.expr, set[ast.AST]] = {}
        self.arrived: set[ast.expr] = set()
        self.computed: set[ast.Call] = set()
        self.extremes: dict[ast.If, Extreme] = {}
        self.on_device: set[ast.expr] = set()
        self.passed: dict[ast.expr, ast.expr] = {}
        self.filled: dict[ast.Assign, str] = {}
        self.read: set[ast.Call] = set()
        self.together: set[ast.AST] = set()
        self.waited: set[ast.stmt] = set()
        self.shared: set[object] = set()

    def add(self, other: Deferral) -> None:
        """Add the edits of `other`."""
        for name, mine in list(vars(self).items())[2:]:
            for key, nodes in _nodes(getattr(other, name)):
                if isinstance(nodes, set):
                    mine.setdefault(key, set()).update(nodes)
                elif isinstance(mine, dict):
                    mine[key] = nodes
                else:
                    mine.add(key)


def _nodes(part: Any) -> Any:
    return part.items() if isinstance(part, dict) else dict.fromkeys(part).items()
