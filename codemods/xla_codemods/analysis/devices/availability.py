"""Is there an accelerator? The ways to ask, and the choices of a device that hang on nothing else."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from ...patterns import Pattern
from ..inference.library_types import RUNTIME
from .specs import Devices, Spec

if TYPE_CHECKING:
    from ..parsed_file import ParsedFile

# Functions that tell whether there is an accelerator.
AVAILABLE = frozenset(
    {
        "torch.cuda.is_available",
        "torch.accelerator.is_available",
        "torch.cuda.is_initialized",
        "torch.backends.cuda.is_built",
        "torch.backends.cudnn.is_available",
        f"{RUNTIME}.is_available",
    }
)
_OTHERS_AVAILABLE = frozenset(
    {
        "torch.backends.mps.is_available",
        "torch.backends.mps.is_built",
        "torch.mps.is_available",
        "torch.xpu.is_available",
        "torch.npu.is_available",
        "torch.mlu.is_available",
        "torch.hpu.is_available",
        "torch.musa.is_available",
        "torch_npu.npu.is_available",
    }
)
_COUNTS = frozenset(
    {
        "torch.cuda.device_count",
        "torch._C._cuda_getDeviceCount",
        "torch.accelerator.device_count",
        f"{RUNTIME}.device_count",
    }
)
_SOME = {(ast.Gt, 0), (ast.GtE, 1), (ast.NotEq, 0)}
# Device types beside CUDA that are not the host.
OTHER_ACCELERATORS = frozenset({"xpu", "mps", "npu", "hpu", "mlu", "musa", "privateuseone", "hip"})


def asks_availability(script: ParsedFile, node: ast.expr, *, others: bool = False) -> bool:
    """True if `node` checks only that an accelerator is present; with `others`, one of another make counts, too."""
    match node:
        case ast.Call(func=func):
            if asks_whether_built(script, node):
                return True
            dotted = script.dotted(func)
            return dotted in AVAILABLE or (others and dotted in _OTHERS_AVAILABLE)
        case ast.Compare(left=left, ops=[op], comparators=[ast.Constant(value=int(number))]):
            return (type(op), number) in _SOME and _counts_devices(script, left)
        case ast.BoolOp(op=ast.And(), values=values) if others:
            return all(asks_availability(script, v, others=True) or _is_hasattr(v) for v in values)
        case ast.Name():
            return _bound_to_availability(script, node, others)
        case ast.IfExp(test=test, body=ast.Constant(value=True), orelse=ast.Constant(value=False)):
            return asks_availability(script, test, others=others)
    return False


def asks_whether_built(script: ParsedFile, node: ast.expr) -> bool:
    """`hasattr(torch._C, "_cuda_getDeviceCount")`."""
    match node:
        case ast.Call(func=ast.Name(id="hasattr"), args=[owner, ast.Constant(value=str(name))]):
            return name.startswith("_cuda_") and script.dotted(owner) == "torch._C"
    return False


def _bound_to_availability(script: ParsedFile, node: ast.Name, others: bool) -> bool:
    """`use_cuda = torch.cuda.is_available()`, and nothing else."""
    value = script.only_value(node)
    return isinstance(value, (ast.Call, ast.IfExp)) and asks_availability(
        script, value, others=others
    )


def _counts_devices(script: ParsedFile, node: ast.expr) -> bool:
    """`torch.cuda.device_count()`, or a name for what it gave."""
    if isinstance(node, ast.Name):
        value = script.only_value(node)
        return isinstance(value, ast.Call) and _counts_devices(script, value)
    return isinstance(node, ast.Call) and script.dotted(node.func) in _COUNTS


def whole_choice(script: ParsedFile, node: ast.expr) -> Spec | None:
    """The device that `"cuda" if torch.cuda.is_available() else "cpu"` means: the accelerator, or else the host.

    Chains over other makes (`"mps" if ...`) and choices between `torch.device(...)` calls are such choices too;
    any other condition is not.
    """
    if not isinstance(node, ast.IfExp) or isinstance(node.test, ast.Name):
        return None
    if isinstance(node.test, ast.UnaryOp) and isinstance(node.test.op, ast.Not):
        return _choice(script, node.test.operand, node.orelse, node.body, node)
    return _choice(script, node.test, node.body, node.orelse, node)


def _choice(
    script: ParsedFile, test: ast.expr, there: ast.expr, otherwise: ast.expr, node: ast.IfExp
) -> Spec | None:
    if not (asks_availability(script, test, others=True) or _counts_devices(script, test)):
        return None
    there, otherwise = _undressed(script, there), _undressed(script, otherwise)
    rest = None if _is_without_cuda(script, otherwise) else whole_choice(script, otherwise)
    if rest is None and not _is_without_cuda(script, otherwise):
        return None
    spec = script.cached(Devices).spec(there) or _indexed(script, there)
    if spec is None and isinstance(there, ast.Constant) and type(there.value) is int:
        spec = Spec(there, there.value)
    elif spec is None and isinstance(there, (ast.Name, ast.Attribute)):
        spec = Spec(there, there) if script.cached(Devices).is_index(there) else None
    if spec is not None:
        return spec._replace(node=node)
    if _is_current_accelerator(script, there):
        return Spec(node)
    return rest._replace(node=node) if rest and _is_text(there, OTHER_ACCELERATORS) else None


def _is_without_cuda(script: ParsedFile, node: ast.expr) -> bool:
    """The host, another make of accelerator, or a choice by availability between such."""
    node = _undressed(script, node)
    if isinstance(node, ast.IfExp):
        return (
            asks_availability(script, node.test, others=True)
            and _is_without_cuda(script, node.body)
            and _is_without_cuda(script, node.orelse)
        )
    return _is_text(node, {"cpu", *OTHER_ACCELERATORS})


def _is_current_accelerator(script: ParsedFile, node: ast.expr) -> bool:
    """`current_accelerator()`, and its `type`."""
    if isinstance(node, ast.Attribute) and node.attr == "type":
        node = node.value
    return isinstance(node, ast.Call) and script.dotted(node.func) in {
        "torch.accelerator.current_accelerator",
        f"{RUNTIME}.xla_device",
    }


def _undressed(script: ParsedFile, node: ast.expr) -> ast.expr:
    """`"cuda"` of `torch.device("cuda")`."""
    match node:
        case (
            ast.Call(func=func, args=[inner], keywords=[])
            | ast.Call(func=func, args=[], keywords=[ast.keyword(arg="type", value=inner)])
        ) if script.dotted(func) == "torch.device":
            return inner
    return node


def _indexed(script: ParsedFile, node: ast.expr) -> Spec | None:
    """`torch.device("cuda", 1)`."""
    match node:
        case (
            ast.Call(func=func, args=[ast.Constant(value="cuda"), index], keywords=[])
            | ast.Call(
                func=func,
                args=[ast.Constant(value="cuda")],
                keywords=[ast.keyword(arg="index", value=index)],
            )
        ) if script.dotted(func) == "torch.device":
            known = isinstance(index, ast.Constant) and isinstance(index.value, int)
            return Spec(node, index.value if known else index)  # type: ignore[attr-defined]
    return None


def _is_text(node: ast.expr, texts: set[str] | frozenset[str]) -> bool:
    return isinstance(node, ast.Constant) and node.value in texts


def _is_hasattr(node: ast.expr) -> bool:
    return (
        isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "hasattr"
    )


_SKIPS = Pattern(r"skip|only_?on|unittest|pytest", re.IGNORECASE)
_OF_TESTS = Pattern(r"(?:only|skip|requires?)_?\w*cuda|cuda_?only", re.IGNORECASE)


def chooses_tests(script: ParsedFile, node: ast.AST) -> bool:
    """True if `node` stands in what chooses tests: `def onlyCUDA(test): return onlyOn("cuda")(test)`."""
    return any(
        isinstance(ancestor, ast.FunctionDef)
        and _OF_TESTS.search(ancestor.name) is not None
        and any(_SKIPS.search(script.segment(statement)) for statement in ancestor.body)
        for ancestor in script.ancestors(node)
    )


def is_one_of_many(script: ParsedFile, node: ast.expr) -> bool:
    """True if `node` stands in a list of questions for three makes of accelerators or more, joined by `or`."""
    for ancestor in script.ancestors(node):
        if isinstance(ancestor, ast.stmt):
            return False
        if isinstance(ancestor, ast.BoolOp) and isinstance(ancestor.op, ast.Or):
            texts = "\n".join(ast.unparse(value) for value in ancestor.values)
            if len(set(_MAKES.findall(texts))) > 2:
                return True
    return False


_MAKES = re.compile(r"\btorch\.(xpu|npu|hpu|mlu|musa|sdaa|neuron|mps)\b")
