"""Branches that the script itself keeps away from XLA: `if is_torch_xla_available(): ... else: ...`."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from ...patterns import Pattern

if TYPE_CHECKING:
    from ...finding import Finding
    from ..parsed_file import ParsedFile

# What libraries and scripts call the question; not `xla.is_available`, which is the runtime's.
_ASKED = Pattern(
    r"\bis_(?:torch_)?(?:xla|tpu)_available\b|\bDistributedType\.(?:XLA|TPU)\b|\b_?(?:HAS|USE|IS)_(?:TORCH_)?XLA\b"
    r"|\b_?(?:has|use|is)_(?:torch_)?xla\b"
)
_KINDS = Pattern(r"\bDistributedType\.")  # accelerate's: on XLA devices it is XLA
_WORDS = (
    "is_xla_",
    "is_torch_xla_",
    "is_tpu_",
    "is_torch_tpu_",
    "DistributedType.",
    "TORCH_XLA",
    "_XLA",
    "_xla",
)
# What a branch for XLA begins with where a test says nothing: `if args.tpu: import torch_xla`.
_IMPORTED = "torch_xla"
_MAKES = ("xpu", "npu", "hpu", "mps", "mlu", "musa")
_OF_A_MAKE = Pattern(
    r"(?:^|_)(?:xpu|npu|hpu|mps|mlu|musa)(?:_|$)|^(?:XPU|NPU|HPU|MPS|MLU|MUSA)(?=[A-Z]|$)"
)
_LEAVES = (ast.Return, ast.Raise, ast.Continue, ast.Break)


def without_kept(script: ParsedFile, found: list[Finding]) -> list[Finding]:
    """The findings but those in code that runs only where a test of the script's own has said: this is not XLA."""
    if found and script.source.mentions(*_MAKES):
        found = [finding for finding in found if not _is_for_another_make(script, finding.node)]
    if not found or not script.source.mentions("xla", "distributedtype", "tpu"):
        return found
    text = script.source.text
    asks = any(word in text for word in _WORDS) and (
        _ASKED.search(text) is not None or "DistributedType." in text
    )
    if not asks and _IMPORTED not in text:
        return found
    return [finding for finding in found if not _is_kept(script, finding.node)]


def _is_for_another_make(script: ParsedFile, node: ast.AST) -> bool:
    """True in `def _xpu_barrier():`, a function or class for accelerators of another make, by its name."""
    return any(
        isinstance(around, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))
        and _OF_A_MAKE.search(around.name) is not None
        and "cuda" not in around.name.lower()
        for around in script.ancestors(node)
    )


def _is_kept(script: ParsedFile, node: ast.AST) -> bool:
    child = node
    for ancestor in script.ancestors(node):
        if isinstance(ancestor, (ast.If, ast.IfExp)) and child is not ancestor.test:
            inside = _is_in_body(child, ancestor)
            if _rules_out(ancestor.test, truth=inside):
                return True
            if isinstance(ancestor, ast.If) and not inside and _is_for_xla(ancestor.body):
                return True
        if isinstance(child, ast.stmt):
            for statement in _before(script, child):
                if isinstance(statement, ast.If) and isinstance(statement.body[-1], _LEAVES):
                    if not statement.orelse and _rules_out(statement.test, truth=False):
                        return True
        if isinstance(ancestor, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            return False
        child = ancestor
    return False


def _is_for_xla(block: list[ast.stmt]) -> bool:
    """True if `block` imports torch_xla: the other branches are for those who do without."""
    return any(
        (isinstance(statement, ast.Import) and statement.names[0].name.startswith(_IMPORTED))
        or (
            isinstance(statement, ast.ImportFrom) and (statement.module or "").startswith(_IMPORTED)
        )
        for statement in block
    )


def _is_in_body(child: ast.AST, branch: ast.If | ast.IfExp) -> bool:
    return child in branch.body if isinstance(branch, ast.If) else child is branch.body


def _before(script: ParsedFile, statement: ast.stmt) -> list[ast.stmt]:
    block = script.block(statement)
    return block[: block.index(statement)]


def _rules_out(test: ast.expr, truth: bool) -> bool:
    """True if `test` being `truth` says that this is not XLA."""
    match test:
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return _rules_out(operand, not truth)
        case ast.BoolOp(op=op, values=values):
            if isinstance(op, ast.And) is truth:  # all are true, or all are false
                return any(_rules_out(value, truth) for value in values)
            return all(_rules_out(value, truth) for value in values)
        case ast.Compare(ops=[ast.Eq() | ast.In() | ast.Is()], comparators=[kinds]):
            if truth:  # it is of another kind
                return _KINDS.search(text := ast.unparse(kinds)) is not None and not _ASKED.search(
                    text
                )
            return _ASKED.search(ast.unparse(test)) is not None
        case ast.Compare(ops=[ast.NotEq() | ast.NotIn() | ast.IsNot()]):
            return truth and _ASKED.search(ast.unparse(test)) is not None
        case ast.Call() | ast.Name() | ast.Attribute():
            return not truth and _ASKED.search(ast.unparse(test)) is not None
    return False
