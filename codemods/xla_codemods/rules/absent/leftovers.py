"""What the rules about CUDA-only names share: the uses that nobody else deals with, and guards around them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ...catalog import HARMLESS, RAISES, SILENT, SLOW, STAYS, Row, covering
from ...cuda_only import Use, uses
from ...edits import DropArgument, Edit, Replace, ReplaceStatement
from ...findings import ERROR, HIGH, INFO, LOW, MEDIUM, WARNING, Finding
from ...rule import Rest, Rule

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


# What a package is called in the names of flags: `HAS_FLASH`, `is_bnb_available`.
_NICKNAMES = {
    "flash_attn": "flash",
    "flash_attn_interface": "flash",
    "flash_attn_2_cuda": "flash",
    "bitsandbytes": "bnb|bitsandbytes|8bit|4bit",
    "transformer_engine": "transformer_?engine|te_|_te\\b|fp8",
    "pynvml": "nvml",
    "horovod": "horovod|hvd",
    "causal_conv1d": "causal_conv",
    "mamba_ssm": "mamba|selective",
    "liger_kernel": "liger",
}
_IMPORT_ERRORS = frozenset({"ImportError", "ModuleNotFoundError", "Exception", "BaseException"})


def is_guarded(script: Script, node: ast.AST, dotted: str) -> bool:
    """Whether the code goes another way where the package is not installed: `try: import x`, `if HAS_X:`."""
    package = dotted.partition(".")[0]
    if package in {"torch", "torchao"}:
        return False
    return _is_in_guard(script, node, package) or _is_imported_with_fallback(script, node)


def _is_imported_with_fallback(script: Script, node: ast.AST) -> bool:
    """Whether the name was imported in a `try` whose handler puts something in its place, or clears a flag."""
    while isinstance(node, ast.Attribute):
        node = node.value
    if not isinstance(node, ast.Name):
        return False
    bound = script.index.scope(node).find(node.id)
    imports = [b.node for b in bound[1] if b.how == "import"] if bound else []
    return bool(imports) and all(_has_fallback(script, statement) for statement in imports)


def _has_fallback(script: Script, statement: ast.AST) -> bool:
    child = statement
    for ancestor in script.ancestors(statement):
        if isinstance(ancestor, ast.Try) and child in ancestor.body:
            handlers = [h for h in ancestor.handlers if _goes_on(h)]
            return any(
                isinstance(s, (ast.Assign, ast.Import, ast.ImportFrom, *_DEFINITIONS))
                for h in handlers
                for s in h.body
            )
        child = ancestor
    return False


def _is_in_guard(script: Script, node: ast.AST, package: str) -> bool:
    said = re.compile(_NICKNAMES.get(package, re.escape(package)), re.IGNORECASE)
    child = node
    for ancestor in script.ancestors(node):
        if isinstance(ancestor, ast.Try) and child in ancestor.body:
            if any(_goes_on(handler) for handler in ancestor.handlers):
                return True
        elif isinstance(ancestor, (ast.If, ast.IfExp)) and child is not ancestor.test:
            if said.search(ast.unparse(ancestor.test)):
                return True
        elif isinstance(ancestor, ast.BoolOp) and child is not ancestor.values[0]:
            if said.search(ast.unparse(ancestor.values[0])):
                return True
        elif isinstance(ancestor, _DEFINITIONS) and any(
            said.search(ast.unparse(d)) for d in ancestor.decorator_list
        ):
            return True
        child = ancestor
    return False


def _goes_on(handler: ast.ExceptHandler) -> bool:
    """Whether `handler` catches a failed import, and does not fail itself."""
    kinds = handler.type
    names = (
        {"Exception"}
        if kinds is None
        else {n.id for n in ast.walk(kinds) if isinstance(n, ast.Name)}
    )
    if not names & _IMPORT_ERRORS:
        return False
    return not any(isinstance(node, ast.Raise) for node in handler.body)


__all__ = ["CATCH_ALL", "HIGH", "found", "is_guarded", "leftovers", "message"]
