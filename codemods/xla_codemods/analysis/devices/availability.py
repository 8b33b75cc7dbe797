"""Is there an accelerator? The ways to ask, and the choices of a device that hang on nothing else."""

from __future__ import annotations

import ast
import re

from ...flow.conditions import truth
from ...patterns import Pattern
from ..inference.library_types import RUNTIME
from ..parsed_file import ParsedFile
from ..syntax import name_of
from .specs import Devices, Spec

# Functions that tell whether there is an accelerator.
AVAILABLE = frozenset(
    {
        "torch.cuda.is_available",
        "torch.accelerator.is_available",
        "torch.cuda.is_initialized",
        "torch.backends.cuda.is_built",
        "torch.backends.cudnn.is_available",
        f"{RUNTIME}.is_available",
        f"{RUNTIME}.is_initialized",
    }
)
_OTHERS_AVAILABLE = Pattern(
    r"^torch\.(?:backends\.)?(?:mps|xpu|npu|mlu|hpu|musa)\.is_(?:available|built)$|^torch_npu\.npu\.is_available$"
)
_COUNTS = frozenset(
    {
        "torch.cuda.device_count",
        "torch._C._cuda_getDeviceCount",
        "torch.accelerator.device_count",
        f"{RUNTIME}.device_count",
    }
)
# Comparisons of a count, with their result if there is a device.
COMPARED = {
    **{(ast.Gt, 0): True, (ast.GtE, 1): True, (ast.NotEq, 0): True},
    **{(ast.Eq, 0): False, (ast.Lt, 1): False, (ast.LtE, 0): False},
}
# Device types beside CUDA that are not the host.
OTHER_ACCELERATORS = frozenset({"xpu", "mps", "npu", "hpu", "mlu", "musa", "privateuseone", "hip"})


def asks_availability(script: ParsedFile, node: ast.expr, *, others: bool = False) -> bool:
    """Return True if `node` only checks for an accelerator; `others`: of another make, too."""
    return all(_result(script, node, present, others) is present for present in (True, False))


def _result(script: ParsedFile, node: ast.expr, present: bool, others: bool) -> bool | None:
    """Return the result of `node` on a machine with or without accelerators, None if it depends on more."""
    return truth(node, lambda part: _known(script, part, present, others))


def _known(script: ParsedFile, node: ast.expr, present: bool, others: bool) -> bool | None:
    match node:
        case ast.Call(func=func):
            dotted = script.dotted(func) or ""
            if dotted in AVAILABLE or asks_whether_built(script, node):
                return present
            if others and _OTHERS_AVAILABLE.search(dotted):
                return present
            if others and present and _is_hasattr(node):  # `hasattr(torch, "xpu") and ...`
                return True
        case ast.Compare(left=left, ops=[op], comparators=[ast.Constant(value=int(number))]):
            result = COMPARED.get((type(op), number))
            if result is not None and _counts_devices(script, left):
                return result is present
        case ast.Name():
            value = script.only_value(node)
            if isinstance(value, (ast.Call, ast.IfExp)):
                return _result(script, value, present, others)
        case ast.IfExp(test=test, body=ast.Constant(value=True), orelse=ast.Constant(value=False)):
            return _result(script, test, present, others)
    return None


def asks_whether_built(script: ParsedFile, node: ast.expr) -> bool:
    """`hasattr(torch._C, "_cuda_getDeviceCount")`."""
    match node:
        case ast.Call(func=ast.Name(id="hasattr"), args=[owner, ast.Constant(value=str(name))]):
            return name.startswith("_cuda_") and script.dotted(owner) == "torch._C"
    return False


def _counts_devices(script: ParsedFile, node: ast.expr) -> bool:
    """`torch.cuda.device_count()`, or a name for what it gave."""
    if isinstance(node, ast.Name):
        value = script.only_value(node)
        return isinstance(value, ast.Call) and _counts_devices(script, value)
    return isinstance(node, ast.Call) and script.dotted(node.func) in _COUNTS


def whole_choice(script: ParsedFile, node: ast.expr) -> Spec | None:
    """Return the device of `"cuda" if torch.cuda.is_available() else "cpu"`.

    Other makes (`"mps" if ...`) and calls of `torch.device` may be among the choices. With any
    other condition, return None.
    """
    if not isinstance(node, ast.IfExp) or isinstance(node.test, ast.Name):
        return None
    there, otherwise = _chosen(script, node, True), _chosen(script, node, False)
    if there is None or not _is_text(otherwise, {"cpu", *OTHER_ACCELERATORS}):
        return None
    devices = script.cached(Devices)
    spec = devices.spec(there) or _indexed(script, there)
    if spec is None and isinstance(there, ast.Constant) and type(there.value) is int:
        spec = Spec(there, there.value)
    elif spec is None and isinstance(there, (ast.Name, ast.Attribute)):
        spec = Spec(there, there) if devices.is_index(there) else None
    if spec is not None:
        return spec._replace(node=node)
    return Spec(node) if _is_current_accelerator(script, there) else None


def _chosen(script: ParsedFile, node: ast.expr, cuda: bool) -> ast.expr | None:
    """Return what `node` is on a machine with CUDA devices or without accelerators; None if it depends on more."""

    def known(part: ast.expr) -> bool | None:
        if isinstance(part, (ast.BoolOp, ast.UnaryOp)):
            return None
        if _counts_devices(script, part) or asks_availability(script, part):
            return cuda
        if asks_availability(script, part, others=True):
            return False
        return True if cuda and _is_hasattr(part) else None

    chosen: ast.expr | None = _undressed(script, node)
    while isinstance(chosen, ast.IfExp):
        result = truth(chosen.test, known)
        chosen = None if result is None else chosen.body if result else chosen.orelse
        chosen = chosen and _undressed(script, chosen)
    return chosen


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


def _is_hasattr(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and name_of(node.func) == "hasattr"


def _is_text(node: ast.expr | None, texts: set[str] | frozenset[str]) -> bool:
    return isinstance(node, ast.Constant) and node.value in texts


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


_MAKES = Pattern(r"\btorch\.(xpu|npu|hpu|mlu|musa|sdaa|neuron|mps)\b")
