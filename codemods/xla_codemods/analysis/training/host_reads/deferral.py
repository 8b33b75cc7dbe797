"""The edits that defer one host read, as the value is followed to the code that uses it."""

from __future__ import annotations

import ast
from collections.abc import Collection
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

from .calls import Shown
from .functions import Extreme

if TYPE_CHECKING:
    from ...script import Script


@dataclass
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

    script: Script
    always: Collection[ast.AST]
    later: dict[Shown, set[ast.AST]] = field(default_factory=dict)
    texts: dict[ast.expr, set[ast.AST]] = field(default_factory=dict)
    arrived: set[ast.expr] = field(default_factory=set)
    computed: set[ast.Call] = field(default_factory=set)
    extremes: dict[ast.If, Extreme] = field(default_factory=dict)
    on_device: set[ast.expr] = field(default_factory=set)
    passed: dict[ast.expr, ast.expr] = field(default_factory=dict)
    filled: dict[ast.Assign, str] = field(default_factory=dict)
    read: set[ast.Call] = field(default_factory=set)
    together: set[ast.AST] = field(default_factory=set)
    waited: set[ast.stmt] = field(default_factory=set)
    shared: set[object] = field(default_factory=set)

    def add(self, other: Deferral) -> None:
        """Add the edits of `other`."""
        for part in fields(self)[2:]:
            mine: Any = getattr(self, part.name)
            for key, nodes in _nodes(getattr(other, part.name)):
                if isinstance(nodes, set):
                    mine.setdefault(key, set()).update(nodes)
                elif isinstance(mine, dict):
                    mine[key] = nodes
                else:
                    mine.add(key)


def _nodes(part: Any) -> Any:
    return part.items() if isinstance(part, dict) else dict.fromkeys(part).items()
