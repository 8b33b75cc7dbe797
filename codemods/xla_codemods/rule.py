"""A rule: a code, a name, and functions that check the places it listens to.

A rule is one module. Its docstring is its manual: the first line is the summary, each ```diff block a test
(context and `-` lines before, context and `+` lines after), each ```python block must stay unchanged.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from .edits import Edit
from .finding import ERROR, LOW, SAFE, Finding
from .listened import LISTENED
from .symptoms import Behind

if TYPE_CHECKING:
    from .analysis.cuda_names import Use
    from .analysis.scopes import Scope
    from .analysis.script import Script

    class MethodCall(ast.Call):
        """A call `owner.name()`."""

        func: ast.Attribute

else:
    MethodCall = ast.Call


# A check: looks at one place, or at a file, and yields findings.
CallCheck = Callable[["Script", ast.Call, "Scope"], Iterable[Finding]]
MethodCheck = Callable[["Script", MethodCall, "Scope"], Iterable[Finding]]
ReferenceCheck = Callable[["Script", ast.expr, "Scope"], Iterable[Finding]]
NodeCheck = Callable[["Script", Any, "Scope"], Iterable[Finding]]
FileCheck = Callable[["Script"], Iterable[Finding]]
FallbackCheck = Callable[["Script", "Unhandled"], Iterable[Finding]]


class Unhandled(NamedTuple):
    """What the other rules have left of a file: uses of CUDA-only names, and the `codes` of rules that look at these."""

    uses: list[Use]
    found: list[Finding]
    codes: frozenset[str]


class Rule:
    """One rule: what it listens to is registered by decorators, in its own module."""

    def __init__(
        self,
        code: str,
        name: str,
        *,
        severity: str = ERROR,
        effort: str = LOW,
        about: str = "correctness",
        shows_accelerator: bool = True,
        behind: Behind | None = None,
        origin: str = "",
        of_step: str = "",
        defers: bool = False,
        first: bool = False,
        of_what_runs: bool = False,
        opens: bool = False,
        words: tuple[str, ...] = (),
        leftovers: str = "",
    ) -> None:
        """A rule.

        Args:
            code: as "XLA101"; a code is never used again.
            name: a readable name that users may write instead of the code.
            severity: `ERROR`, `WARNING` or `INFO`.
            effort: how much work the user has left: `LOW`, `MEDIUM` or `HIGH`.
            about: "speed" if the code runs on XLA and computes the same, otherwise "correctness".
            shows_accelerator: False if programs that train on the CPU alone have such findings, too. A file that names
                no device and has only such findings is not reported.
            behind: what `verify` may find wrong with the migrated script because of such a finding, for example
                `{"static shapes": LIKELY}`. The topic's values apply to everything that is not listed. `{}`: nothing.
            origin: "torch_xla" if the rule rewrites code written for torch_xla, and runs only with `--from torch_xla`;
                "xla_migrate" if it rewrites calls of the runtime, for `--style native`.
            of_step: the part of a training step that the rule changes: "step", "mark", "turn", "precision", "file" or
                "wrapper". The part stays if the sharding of the step's model stays (`analysis/training/manual_sharding`).
            defers: True if the rule defers reads of loops, so that they need no step mark before them.
            first: True if an error of this rule stops the migration: it is listed before the file's other findings.
            of_what_runs: True if the rule reports nothing in code that XLA never runs, for example in a branch for CUDA.
            opens: True if the rule replaces tests for CUDA. A test stays if its branch fails on XLA and has no fix.
            words: parts of names, in small letters. The checks of nodes and of the file run only in files that mention
                one of them; fallbacks also run in files with uses that no rule reports.
            leftovers: the effort of findings at CUDA-only names that the catalog assigns to the rule and that no other
                check reports; "" for no such findings.
        """
        self.of_step = of_step
        self.defers = defers
        self.first = first
        self.of_what_runs = of_what_runs
        self.opens = opens
        self.words = words
        self.leftovers = leftovers
        self.about = about
        self.origin = origin
        self.shows_accelerator = shows_accelerator
        self.behind: Behind = behind or {}
        self.changes_nothing = behind == {}
        self.module = ""  # that it stands in; its discovery says so
        self.code = code
        self.name = name
        self.severity = severity
        self.effort = effort
        self.calls: dict[str, CallCheck] = {}
        self.methods: dict[str, MethodCheck] = {}
        self.references: dict[str, ReferenceCheck] = {}
        self.nodes: dict[type[ast.AST], NodeCheck] = {}
        self.subclasses: dict[str, NodeCheck] = {}
        self.named: dict[tuple[type[ast.AST], str | None], NodeCheck] = {}
        self.file_checks: dict[str, FileCheck] = {}
        self.fallback_checks: dict[str, FallbackCheck] = {}

    def call(self, *dotted: str) -> Callable[[CallCheck], CallCheck]:
        """Listen to calls of these dotted names."""
        LISTENED.update(dotted)
        return _register(self.calls, dotted)

    def method(self, *names: str) -> Callable[[MethodCheck], MethodCheck]:
        """Listen to method calls `anything.<name>(...)` that are no library function."""
        return _register(self.methods, names)

    def reference(self, *dotted: str) -> Callable[[ReferenceCheck], ReferenceCheck]:
        """Listen to these dotted names, except in calls."""
        LISTENED.update(dotted)
        return _register(self.references, dotted)

    def subclass(self, *dotted: str) -> Callable[[NodeCheck], NodeCheck]:
        """Listen to classes that derive from one of these, also through other classes of the program."""
        return _register(self.subclasses, dotted)

    def node(
        self, *types: type[ast.AST], named: Iterable[str | None] = ()
    ) -> Callable[[NodeCheck], NodeCheck]:
        """Listen to every node of these types; with `named` to those keyword arguments (None: `**`), attributes or
        calls (by the last name of what is called) that have one of these names.
        """
        if named:
            return _register(self.named, [(kind, name) for kind in types for name in named])
        return _register(self.nodes, types)

    def file(self, check: FileCheck) -> FileCheck:
        """Look at the file as a whole."""
        self.file_checks[check.__name__] = check
        return check

    def fallback(self, check: FallbackCheck) -> FallbackCheck:
        """Look at what the other rules have left."""
        self.fallback_checks[check.__name__] = check
        return check

    def finding(
        self,
        script: Script,
        node: ast.AST,
        message: str,
        *edits: Edit,
        safety: str = SAFE,
        severity: str | None = None,
        effort: str | None = None,
    ) -> Finding:
        """Return a finding of this rule at `node`; without `edits` the user decides."""
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
