"""What a rule is: a code, a name, and functions that look at the places it listens to.

A rule is one module. Its docstring is its manual: the first line is the summary, each ```diff block a test
(context and `-` lines before, context and `+` lines after), each ```python block must stay as it is.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from .edits import Edit
from .findings import ERROR, LOW, SAFE, Finding

if TYPE_CHECKING:
    from .cuda_only import Use
    from .names import Scope
    from .script import Script

# Looks at one place and yields findings.
CallCheck = Callable[["Script", ast.Call, "Scope"], Iterable[Finding]]
ReferenceCheck = Callable[["Script", ast.expr, "Scope"], Iterable[Finding]]
NodeCheck = Callable[["Script", Any, "Scope"], Iterable[Finding]]
WholeCheck = Callable[["Script"], Iterable[Finding]]
RestCheck = Callable[["Script", "Rest"], Iterable[Finding]]


class Rest(NamedTuple):
    """What the other rules have left of a file: uses of CUDA-only names, and the `codes` of rules that look at these."""

    uses: list[Use]
    found: list[Finding]
    codes: frozenset[str]


class Rule:
    """One rule: what it listens to is registered by decorators, in its own module."""

    def __init__(self, code: str, name: str, *, severity: str = ERROR, effort: str = LOW) -> None:
        self.code = code
        self.name = name
        self.severity = severity
        self.effort = effort
        self.calls: dict[str, CallCheck] = {}
        self.methods: dict[str, CallCheck] = {}
        self.references: dict[str, ReferenceCheck] = {}
        self.nodes: dict[type[ast.AST], NodeCheck] = {}
        self.named: dict[tuple[type[ast.AST], str | None], NodeCheck] = {}
        self.wholes: list[WholeCheck] = []
        self.rests: list[RestCheck] = []

    def call(self, *dotted: str) -> Callable[[CallCheck], CallCheck]:
        """Listen to calls of these dotted names."""
        return _register(self.calls, dotted)

    def method(self, *names: str) -> Callable[[CallCheck], CallCheck]:
        """Listen to method calls `anything.<name>(...)` that are no library function."""
        return _register(self.methods, names)

    def reference(self, *dotted: str) -> Callable[[ReferenceCheck], ReferenceCheck]:
        """Listen to these dotted names where they are not called."""
        return _register(self.references, dotted)

    def node(
        self, *types: type[ast.AST], named: Iterable[str | None] = ()
    ) -> Callable[[NodeCheck], NodeCheck]:
        """Listen to every node of these types; with `named` to those keyword arguments (None: `**`), attributes or
        calls (by the last name of what is called) that have one of these names.
        """
        if named:
            return _register(self.named, [(kind, name) for kind in types for name in named])
        return _register(self.nodes, types)

    def whole(self, check: WholeCheck) -> WholeCheck:
        """Look at the file as a whole."""
        self.wholes.append(check)
        return check

    def rest(self, check: RestCheck) -> RestCheck:
        """Look at what the other rules have left."""
        self.rests.append(check)
        return check

    def at(
        self,
        script: Script,
        node: ast.AST,
        message: str,
        *edits: Edit,
        safety: str = SAFE,
        severity: str | None = None,
        effort: str | None = None,
    ) -> Finding:
        """A finding of this rule at `node`; without `edits` a person decides."""
        line = getattr(node, "lineno", 1)
        end = getattr(node, "end_lineno", None) or line
        column = script.source.column
        return Finding(
            self.code,
            self.name,
            message,
            node,
            line,
            column(line, getattr(node, "col_offset", 0)) + 1,
            end,
            column(end, getattr(node, "end_col_offset", None) or 0) + 1,
            severity or self.severity,
            effort or self.effort,
            safety if edits else None,
            edits,
        )


K = TypeVar("K")
C = TypeVar("C")


def _register(table: dict[K, C], keys: Iterable[K]) -> Callable[[C], C]:
    def decorate(check: C) -> C:
        for key in keys:
            assert key not in table, f"{key} is listened to twice"
            table[key] = check
        return check

    return decorate
