"""The edits that defer one host read, and what stands in the way."""

from __future__ import annotations

import ast
from collections.abc import Collection
from collections.abc import Set as AbstractSet

from ...script import Script

# Output calls and conditions that run later.
Shown = ast.Call | ast.AugAssign | ast.If | ast.Assert


class Deferral:
    """One host read, and what it takes to defer it.

    Attributes:
        script: The file that reads.
        always: The nodes that run in every step.
        obstacle: Why the read cannot be deferred; empty if it can.
        later: Calls, statements and texts to run later, each with the deferred values in it.
        arrived: Expressions that need Python's own number.
        computed: Calls of functions of numbers: `min(best, value)`.
        extremes: `if value > best: best = value`, each with its replacement and the value in it.
        on_device: Reads that are added to a tensor of the device, and stay there.
        filled: Assignments to elements of arrays.
        read: Reads of whole tensors in calls that run later.
        together: Calls that have to run later for this one to run later.
        waited: Loops after which everything is waited for.
        shared: Names and attributes that hold the value: reads that share one are edited together.
    """

    def __init__(self, script: Script, always: AbstractSet[ast.AST] = frozenset()) -> None:
        self.script = script
        self.always = always
        self.obstacle = ""
        self.later: dict[ast.expr | Shown, set[ast.AST]] = {}
        self.arrived: set[ast.expr] = set()
        self.computed: set[ast.Call] = set()
        self.extremes: dict[ast.If, tuple[str, ast.expr]] = {}
        self.on_device: set[ast.expr] = set()
        self.filled: set[ast.Assign] = set()
        self.read: set[ast.Call] = set()
        self.together: set[ast.AST] = set()
        self.waited: set[ast.stmt] = set()
        self.shared: set[object] = set()

    def refuse(self, why: str) -> None:
        """The read stays as it is. The first reason is reported."""
        self.obstacle = self.obstacle or why

    def show(self, call: ast.expr | Shown, values: Collection[ast.AST]) -> None:
        """Run `call` later, with the deferred `values` in it."""
        self.later.setdefault(call, set()).update(values)

    def wait_after(self, loop: ast.AST) -> None:
        """Wait for all values after `loop`, whose end does not do so."""
        assert isinstance(loop, ast.stmt)
        self.waited.add(loop)
        self.shared.add(loop)

    def add(self, other: Deferral) -> None:
        """Add the edits of `other`."""
        for call, values in other.later.items():
            self.show(call, values)
        self.extremes |= other.extremes
        self.arrived |= other.arrived
        self.computed |= other.computed
        self.on_device |= other.on_device
        self.filled |= other.filled
        self.read |= other.read
        self.together |= other.together
        self.waited |= other.waited
