"""What the rules about CUDA-only names share: the uses that nobody else deals with."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ...catalog import HARMLESS, RAISES, SILENT, SLOW, STAYS, Row, covering
from ...cuda_only import Use, uses
from ...edits import DropArgument, Edit, Replace, ReplaceStatement
from ...findings import ERROR, INFO, LOW, MEDIUM, WARNING, Finding
from ...rule import Rest, Rule
from .guards import is_guarded

if TYPE_CHECKING:
    from ...script import Script

_SEVERITIES = {RAISES: ERROR, SILENT: ERROR, SLOW: WARNING, HARMLESS: INFO}
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def leftovers(rule: Rule, script: Script, rest: Rest, effort: str = MEDIUM) -> Iterator[Finding]:
    """Findings of `rule` at the uses that are its own by the catalog, or nobody's, and that no other finding covers."""
    left = list(_left(script, rest))
    for use, row in left:
        if row.rule == rule.code or (rule.code == CATCH_ALL and row.rule not in rest.codes):
            yield found(rule, script, use, row, effort)


# The rule for names that have no rule of their own.
CATCH_ALL = "XLA906"


def found(rule: Rule, script: Script, use: Use, row: Row, effort: str) -> Finding:
    """The finding that says of `use` what its row says."""
    severity = _SEVERITIES[row.left]
    if is_guarded(script, use.node, use.dotted):
        severity, effort = INFO, LOW
    return rule.at(script, use.node, message(use.dotted, row), severity=severity, effort=effort)


def message(dotted: str, row: Row) -> str:
    """What is wrong with `dotted`, and what to do."""
    said = {
        RAISES: f"`{dotted}` needs CUDA",
        SILENT: f"`{dotted}` is silently wrong without CUDA",
        SLOW: f"`{dotted}` is slow on XLA",
        HARMLESS: f"`{dotted}` does nothing on XLA",
    }[row.left]
    advice = [f"use `{row.instead}`"] if row.instead and "`" not in row.instead else []
    advice += [row.note] if row.note else []
    return ": ".join([said, "; ".join(advice)]) if advice else said


def _left(script: Script, rest: Rest) -> Iterator[tuple[Use, Row]]:
    found = uses(script)
    if not found:
        return
    covered = _Covered(script, rest.found)
    for use in found:
        if (
            rest.hears(use.dotted, use.called)
            or _is_annotation(script, use.node)
            or covered(use.node)
        ):
            continue
        row = covering(use.dotted)
        if row is not None and row.fate != STAYS:
            yield use, row


class _Covered:
    """Whether a finding speaks of a place already, or an edit takes the place away."""

    def __init__(self, script: Script, found: list[Finding]) -> None:
        self.script = script
        self.nodes = {finding.node for finding in found}
        self.open = {finding.node for finding in found if not finding.edits}
        self.gone: dict[ast.AST, list[Edit]] = {}
        for finding in found:
            for edit in finding.edits:
                node = edit.argument if isinstance(edit, DropArgument) else edit.node
                self.gone.setdefault(node, []).append(edit)

    def __call__(self, node: ast.AST) -> bool:
        if any(part in self.nodes for part in _parts(node)):
            return True
        kept = {node}
        parent = self.script.parent(node)
        if parent in self.nodes and isinstance(
            parent, (ast.Call, ast.Attribute, ast.Subscript, ast.withitem)
        ):
            return True
        within_statement = True
        for ancestor in self.script.ancestors(node):
            if within_statement and ancestor in self.open:
                return True
            if isinstance(ancestor, _DEFINITIONS) and ancestor in self.nodes:
                return True
            if any(_takes_away(edit, kept) for edit in self.gone.get(ancestor, ())):
                return True
            within_statement = within_statement and not isinstance(ancestor, ast.stmt)
            kept.add(ancestor)
        return False


def _parts(node: ast.AST) -> Iterator[ast.AST]:
    """`a.b.c`, `a.b`, `a`."""
    while True:
        yield node
        if not isinstance(node, ast.Attribute):
            return
        node = node.value


def _takes_away(edit: Edit, kept: set[ast.AST]) -> bool:
    """Whether `edit` removes what stands in it: but for its holes, through which `kept` may lead."""
    if isinstance(edit, DropArgument):
        return True
    return isinstance(edit, (Replace, ReplaceStatement)) and not kept.intersection(edit.holes)


def _is_annotation(script: Script, node: ast.AST) -> bool:
    """Whether `node` stands in an annotation: nothing is done with it."""
    child = node
    for ancestor in script.ancestors(node):
        if isinstance(ancestor, (ast.arg, ast.AnnAssign)):
            return child is ancestor.annotation
        if isinstance(ancestor, (ast.FunctionDef, ast.AsyncFunctionDef)):
            return child is ancestor.returns
        if isinstance(ancestor, ast.stmt):
            return False
        child = ancestor
    return False
