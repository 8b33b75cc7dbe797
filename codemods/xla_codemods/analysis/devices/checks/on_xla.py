"""The results of tests on XLA, and the code that does not run there."""

from __future__ import annotations

import ast
from collections.abc import Callable

from ....finding import ERROR, WARNING, Finding
from ....flow.conditions import after, before, conditions, is_excluded, truth
from ....flow.edges import sources
from ....patterns import Pattern
from ...nodes import NAMED, walk
from ...parsed_file import ParsedFile
from ...script import Script
from ..availability import AVAILABLE
from ..cuda_only.kernels import (
    chooses_kernels,
    is_among_kernels,
    is_answered_by_the_hardware,
    moves,
)

# The names of tests for XLA in libraries and scripts; not `xla.is_available`, which is the runtime's.
_TESTS_XLA = Pattern(
    r"\bis_(?:torch_)?(?:xla|tpu)_available\b|\bDistributedType\.(?:XLA|TPU)\b|\b_?(?:HAS|USE|IS)_(?:TORCH_)?XLA\b"
    r"|\b_?(?:has|use|is)_(?:torch_)?xla\b"
)
_KINDS = Pattern(r"\bDistributedType\.")  # accelerate's: on XLA devices it is XLA
# The import that a branch for XLA begins with, if its test does not tell: `if args.tpu: import torch_xla`.
_IMPORTED = "torch_xla"
_MAKES = frozenset({"xpu", "npu", "hpu", "mps", "mlu", "musa"})
_OF_A_MAKE = Pattern(
    r"(?:^|_)(?:xpu|npu|hpu|mps|mlu|musa)(?:_|$)|^(?:XPU|NPU|HPU|MPS|MLU|MUSA)(?=[A-Z]|$)"
)
_TESTS_A_MAKE = Pattern(
    r"\b(?:torch\.(?:backends\.)?(?:xpu|npu|hpu|mps|mlu|musa)\.is_available|is_(?:torch_)?(?:xpu|npu|hpu|mps|mlu|musa)_available)$"
)
_TENSORRT = Pattern(r"(?:^|_)(?:trt|tensorrt)(?:_|$)|(?:^|[a-z_])(?:TRT|TensorRT)(?:_|[A-Z]|$)")
# There is one for each CUDA device: `if len(torch.cuda.default_generators) > 0:`.
_GENERATORS = "torch.cuda.default_generators"

# Whether a test for CUDA stays as it is, so that it is False on XLA.
Stays = Callable[["ParsedFile", ast.expr], bool]


def is_guarded(script: ParsedFile, node: ast.AST) -> bool:
    """Return True if `node` does not run on XLA, because a test for CUDA is not rewritten."""
    return _is_dead(script, node, _stays)


def without_dead(
    script: Script, found: list[Finding], of_what_runs: frozenset[str]
) -> list[Finding]:
    """Return the findings except those in code that a test of the script keeps from running on XLA.

    Args:
        script: the file.
        found: its findings.
        of_what_runs: codes that are no findings in code that XLA does not reach.
    """
    return [f for f in found if not _is_of_dead_code(script, f, f.code in of_what_runs)]


def without_opened(found: list[Finding], script: Script, tests: frozenset[str]) -> list[Finding]:
    """Return the findings; a test for CUDA keeps its text if code in its branch fails on XLA and has no fix.

    A branch that moves something to the device is needed on XLA, too: its test is replaced.

    Args:
        found: the findings of the file.
        script: the file.
        tests: the codes of tests for CUDA.
    """
    replaced = {f.node for f in found if f.code in tests and f.edits}
    fixed = {edit.node for finding in found for edit in finding.edits}
    kept: dict[ast.AST, Finding] = {}
    for finding in found if replaced else ():
        if finding.severity == ERROR and not finding.edits and finding.node not in fixed:
            for test, needed in conditions(script, finding.node, refusals=False):
                own = [part for part in walk(test) if part in replaced]
                if own and truth(test, lambda part: _before(part, replaced)) is (not needed):
                    if not moves(script, _branch(script, test, finding.node)):
                        kept |= dict.fromkeys(own, finding)
    return [_kept(f, kept[f.node]) if f.node in kept else f for f in found]


def _before(test: ast.expr, replaced: set[ast.AST]) -> bool | None:
    """Return the result on XLA that one of the tests `replaced` has with its own text."""
    if test not in replaced:
        return None
    return isinstance(test, ast.Compare) and isinstance(test.ops[0], (ast.NotEq, ast.NotIn))


def _branch(script: Script, test: ast.expr, node: ast.AST) -> list[ast.stmt]:
    """Return the statements that run with `node` if `test` lets it run."""
    branch, around = script.statement(test), {node, *script.ancestors(node)}
    blocks = [getattr(branch, "body", []), getattr(branch, "orelse", []), after(script, branch)]
    return next((block for block in blocks if not around.isdisjoint(block)), [])


def _kept(test: Finding, failing: Finding) -> Finding:
    """Return the finding of a test that keeps its text because of another one."""
    why = f"{failing.code} in its branch has no fix: change that code first"
    message = f"{test.message}. It is unchanged because {why}"
    return test._replace(message=message, edits=(), safety=None, severity=WARNING)


def _is_of_dead_code(script: Script, finding: Finding, of_what_runs: bool) -> bool:
    node = finding.node
    about_run = of_what_runs or (
        isinstance(node, ast.Attribute) and script.dotted(node) == _GENERATORS
    )
    names = [around.name for around in script.ancestors(node) if isinstance(around, NAMED)]
    if any(_OF_A_MAKE.search(name) and "cuda" not in name.lower() for name in names):
        return True  # `def _xpu_barrier():`
    if of_what_runs and not script.trains and script.source.mentions("tensorrt", "trt"):
        path = script.path.replace("/", "_").rpartition(".")[0]
        if any(map(_TENSORRT.search, [path, *names])):
            return True  # `class TRTModel:`, `export/tensorrt/run.py`
    return _is_dead(script, node, chooses_kernels if about_run else None)


def _is_dead(script: ParsedFile, node: ast.AST, stays: Stays | None) -> bool:
    """Return True if a condition of `node` has the other result on XLA."""
    if is_excluded(script, node, lambda part: _known(script, part, stays)):
        return True
    return any(_is_behind(script, around, stays) for around in (node, *script.ancestors(node)))


def _is_behind(script: ParsedFile, node: ast.AST, stays: Stays | None) -> bool:
    """Return True if the other branch imports torch_xla, or CUDA's hardware decides before."""
    around = script.parent(node)
    if isinstance(around, ast.If) and node in around.orelse and any(map(_is_for_xla, around.body)):
        return True
    if stays is None or not isinstance(node, ast.stmt) or not isinstance(around, ast.FunctionDef):
        return False
    return any(map(is_answered_by_the_hardware, before(script, node)))


def _is_for_xla(statement: ast.stmt) -> bool:
    match statement:
        case ast.Import(names=[ast.alias(name=name), *_]) | ast.ImportFrom(module=str(name)):
            return name.startswith(_IMPORTED)
    return False


def _known(script: ParsedFile, test: ast.expr, stays: Stays | None) -> bool | None:
    """Return the result of a test for XLA, for another make of accelerators, or for CUDA."""
    match test:
        case ast.Name(id=name):
            value = script.only_value(test)
            if value is None or _TESTS_XLA.search(name) or isinstance(value, ast.Name):
                return True if _TESTS_XLA.search(name) else None
            return truth(value, lambda part: _known(script, part, stays))
        case ast.Attribute(value=ast.Name(id="self"), attr=attr) if not _TESTS_XLA.search(attr):
            values = sources(script, test)
            if len(values) == 1:
                return truth(values[0], lambda part: _known(script, part, stays))
            return None
        case ast.BoolOp() | ast.UnaryOp() | ast.Compare(comparators=[ast.Constant(value=bool())]):
            return None
    negated = isinstance(test, ast.Compare) and isinstance(
        test.ops[0], (ast.NotEq, ast.NotIn, ast.IsNot)
    )
    is_true = _as_equality(script, test, stays)
    return is_true if is_true is None else is_true is not negated


def _as_equality(script: ParsedFile, test: ast.expr, stays: Stays | None) -> bool | None:
    """Return the result of a comparison as if it were one for equality."""
    match test:
        case ast.Compare(comparators=[other]):
            if _TESTS_XLA.search(ast.unparse(test)):
                return True
            makes = [getattr(e, "value", None) for e in getattr(other, "elts", [other])]
            if _KINDS.search(ast.unparse(other)) or (makes and _MAKES.issuperset(makes)):
                return False
        case ast.Call(func=ast.Attribute(attr="startswith"), args=[ast.Constant(value=str(make))]):
            if make.rstrip(":") in _MAKES:
                return False
        case ast.Call() | ast.Attribute():
            text = ast.unparse(test)
            if _TESTS_XLA.search(text):
                return True
            if _TESTS_A_MAKE.search(text.removesuffix("()")):
                return False
    parts = (part for part in walk(test) if isinstance(part, ast.expr))
    return False if stays and any(_tests_cuda(script, part, stays) for part in parts) else None


def _tests_cuda(script: ParsedFile, node: ast.expr, stays: Stays) -> bool:
    """Return True for tests such as `x.is_cuda` and `device.type == "cuda"`, if they stay."""
    match node:
        case ast.Call(func=func):
            return script.dotted(func) in AVAILABLE and stays(script, node)
        case ast.Attribute(attr="is_cuda"):
            return stays(script, node)
        case ast.Attribute():
            return script.dotted(node) == _GENERATORS
        case ast.Compare(ops=[ast.Eq() | ast.NotEq()], left=left, comparators=[right]):
            is_cuda = "cuda" in {getattr(left, "value", None), getattr(right, "value", None)}
            return is_cuda and stays(script, node)
    return False


def _stays(script: ParsedFile, test: ast.expr) -> bool:
    if chooses_kernels(script, test):
        return True
    return not isinstance(test, ast.Call) and is_among_kernels(script, test)
