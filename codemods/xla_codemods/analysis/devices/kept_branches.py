"""Branches that the script itself keeps away from XLA: `if is_torch_xla_available(): ... else: ...`."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from ...patterns import Pattern
from .availability import GENERATORS, is_guarded

if TYPE_CHECKING:
    from ...finding import Finding
    from ..parsed_file import ParsedFile
    from ..script import Script

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
_IS_A_MAKE_THERE = Pattern(
    r"\b(?:torch\.(?:backends\.)?(?:xpu|npu|hpu|mps|mlu|musa)\.is_available|is_(?:torch_)?(?:xpu|npu|hpu|mps|mlu|musa)_available)$"
)
_TENSORRT = Pattern(r"(?:^|_)(?:trt|tensorrt)(?:_|$)|(?:^|[a-z_])(?:TRT|TensorRT)(?:_|[A-Z]|$)")
_LEAVES = (ast.Return, ast.Raise, ast.Continue, ast.Break)


def without_kept(
    script: Script, found: list[Finding], of_what_runs: frozenset[str]
) -> list[Finding]:
    """Return the findings except those in code that runs only after a test of the script excludes XLA.

    Args:
        script: the file.
        found: its findings.
        of_what_runs: codes of what is no finding in code that XLA does not reach; others say why it does not.
    """
    if found and script.source.mentions(*_MAKES):
        found = [finding for finding in found if not _is_for_another_make(script, finding.node)]
    if found and script.source.mentions("tensorrt", "trt") and not script.trains:
        found = [finding for finding in found if not _is_of_tensorrt(script, finding, of_what_runs)]
    if found and script.source.mentions("cuda"):
        found = [
            finding for finding in found if not _is_of_cuda_alone(script, finding, of_what_runs)
        ]
    if not found or not script.source.mentions("xla", "distributedtype", "tpu"):
        return found
    text = script.source.text
    asks = any(word in text for word in _WORDS) and (
        _ASKED.search(text) is not None or "DistributedType." in text
    )
    if not asks and _IMPORTED not in text:
        return found
    return [finding for finding in found if not _is_kept(script, finding.node)]


def _is_of_cuda_alone(script: ParsedFile, finding: Finding, of_what_runs: frozenset[str]) -> bool:
    """Return True if the finding is in the CUDA branch of a test for CUDA that is kept, but is not the test."""
    if finding.code not in of_what_runs:
        node = finding.node
        if not isinstance(node, ast.Attribute) or script.dotted(node) not in GENERATORS:
            return False
    return is_guarded(script, finding.node, also_among_kernels=False)


def _is_of_tensorrt(script: ParsedFile, finding: Finding, of_what_runs: frozenset[str]) -> bool:
    """True in `class TRTModel:` and in `export/tensorrt/run.py`, which run what TensorRT has compiled; not what says so there."""
    return finding.code in of_what_runs and (
        _TENSORRT.search(script.path.replace("/", "_").rpartition(".")[0]) is not None
        or any(
            isinstance(around, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))
            and _TENSORRT.search(around.name) is not None
            for around in script.ancestors(finding.node)
        )
    )


def _is_for_another_make(script: ParsedFile, node: ast.AST) -> bool:
    """True in `def _xpu_barrier():`, a function or class for accelerators of another make, by its name, and in branches for one."""
    child = node
    for around in script.ancestors(node):
        if isinstance(around, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            if _OF_A_MAKE.search(around.name) is not None and "cuda" not in around.name.lower():
                return True
        elif isinstance(around, (ast.If, ast.IfExp)) and child is not around.test:
            if _is_in_body(child, around) and _asks_for_another_make(script, around.test):
                return True
        child = around
    return False


def _asks_for_another_make(script: ParsedFile, test: ast.expr) -> bool:
    """`x.device.type in ("mps", "xpu")`, `device == "npu"`, `torch.backends.mps.is_available()`, and a name that is bound to one."""
    match test:
        case ast.BoolOp(op=ast.And(), values=values):
            return any(_asks_for_another_make(script, value) for value in values)
        case ast.BoolOp(op=ast.Or(), values=values):
            return all(_asks_for_another_make(script, value) for value in values)
        case ast.Compare(ops=[ast.Eq()], comparators=[ast.Constant(value=make)]):
            return make in _MAKES
        case ast.Compare(
            ops=[ast.In()],
            comparators=[ast.Tuple(elts=makes) | ast.List(elts=makes) | ast.Set(elts=makes)],
        ):
            return all(isinstance(m, ast.Constant) and m.value in _MAKES for m in makes)
        case ast.Call(func=ast.Attribute(attr="startswith"), args=[ast.Constant(value=make)]):
            return isinstance(make, str) and make.rstrip(":") in _MAKES
        case ast.Call(func=func, args=[], keywords=[]):
            return _IS_A_MAKE_THERE.search(ast.unparse(func)) is not None
        case ast.Name():
            given = script.only_value(test)
            if given is not None and not isinstance(given, ast.Name):
                return _asks_for_another_make(script, given)
    return False


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
