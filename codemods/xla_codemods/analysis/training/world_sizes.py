"""Arithmetic with the number of processes, for scripts that are to run as one process that drives all devices.

That process is rank 0 of 1. What is summed up over processes is still right when it is divided by their number, 1. What
a script chooses for each process, such as its batch size, or for all of them together, such as the learning rate, is
not: there the number of devices is meant.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import NamedTuple

from ...patterns import Pattern
from ..inference.values import TENSOR
from ..nodes import walk
from ..parsed_file import ParsedFile
from ..scopes import Scope
from ..script import Script
from ..syntax import is_literal, keyword, name_of, unparsed

_COUNTED = Pattern(
    r"^(?:\w*_)?(?:world_?size|num_replicas|n_?procs|num_process(?:es)?|n_?gpus?(?:_per_node)?|num_gpus|device_count)$",
    re.IGNORECASE,
)
_OF_HOST = Pattern(r"gpus?|device_count", re.IGNORECASE)
_CONVERTED = frozenset({"int", "float", "max"})
# What stands beside the number where any number is as good, or 1 is right.
_INDIFFERENT = Pattern(r"worker|rank|\bgpu\b|node|port|proc|thread|jobs", re.IGNORECASE)
_CHOSEN = Pattern(
    r"batch_?size|\bbsz?\b|_bsz?\b|(?:^|[\W_])lr(?:$|[\W_])|learning_?rate|base_?lr|per_gpu|per_device",
    re.IGNORECASE,
)
_FIGURE = Pattern(
    r"loss|acc(?:uracy)?(?:\d|\b|_)|total|metric|correct|sum|seen|count|err|grad|norm|meter|mean|avg|value|tensor|param|buf"
    r"|score|stat|logit|output|feat|size\(|shape\[|len\((?!\w*(?:data|loader))",
    re.IGNORECASE,
)
_OF_STEPS = Pattern(r"batch|accum|step|warm|iter|epoch|token|sample|lr|decay", re.IGNORECASE)
_LOSS = Pattern(r"loss", re.IGNORECASE)

# The change that one use needs.
DEVICES, LOSS, UNSURE = "devices", "loss", "unsure"


class WorldSizeUse(NamedTuple):
    """A number of processes that is multiplied or divided by."""

    operand: ast.expr
    whole: ast.expr | ast.AugAssign
    means: str  # DEVICES; LOSS: a loss before its gradients are taken; or UNSURE


def uses(script: Script) -> Iterator[WorldSizeUse]:
    """Those that mean something else in one process."""
    for node, _ in script.index.of(ast.BinOp):
        if isinstance(node.op, (ast.Mult, ast.Div, ast.FloorDiv)):
            pairs = ((node.left, node.right), (node.right, node.left))
            for operand, beside in pairs:
                yield from _use(script, node, operand, beside)
    for change, _ in script.index.of(ast.AugAssign):
        if isinstance(change.op, (ast.Mult, ast.Div, ast.FloorDiv)):
            yield from _use(script, change, change.value, change.target)


def is_counted(node: ast.expr, scope: Scope | None = None) -> bool:
    """True if `node` is a number of processes: `world_size`, `int(os.environ["WORLD_SIZE"])`, `dist.get_world_size()`.

    So is a name that is bound to nothing but one, in `scope`: `n = dist.get_world_size()`.
    """
    while isinstance(node, ast.Call):
        if isinstance(node.func, ast.Name) and node.func.id in _CONVERTED and node.args:
            node = node.args[-1]
        else:
            node = node.func
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
        return _COUNTED.search(str(node.slice.value)) is not None
    last = name_of(node)
    if _COUNTED.search(last) is not None:
        return True
    found = scope.find(last) if scope is not None and isinstance(node, ast.Name) else None
    return found is not None and all(
        isinstance(binding.whole, ast.Call | ast.Subscript) and is_counted(binding.whole)
        for binding in found[1]
    )


def _use(
    script: Script,
    node: ast.BinOp | ast.AugAssign,
    operand: ast.expr,
    beside: ast.expr,
) -> Iterator[WorldSizeUse]:
    scope = script.index.scope(node)
    if not is_counted(operand, scope) or is_counted(beside, scope):
        return
    means = _meaning(script, node, operand, beside)
    if means:
        yield WorldSizeUse(operand, node, means)


def _meaning(
    script: Script,
    node: ast.BinOp | ast.AugAssign,
    operand: ast.expr,
    beside: ast.expr,
) -> str:
    """Return what one use means, or "" if it needs no change."""
    near = ast.unparse(beside)
    divides = not isinstance(node.op, ast.Mult)
    if isinstance(node, ast.BinOp) and divides and operand is node.left:
        return ""  # `world_size // 2`
    if _INDIFFERENT.search(near) or isinstance(beside, (ast.List, ast.Tuple, ast.ListComp)):
        return ""
    if not divides and "sampler" in near.lower():
        return ""  # `len(sampler) * world_size` is all of the data
    if _CHOSEN.search(near):
        return _chosen(operand, divides)
    if _LOSS.search(near) and _is_differentiated(script, node):
        return LOSS
    if script.value(beside).has(TENSOR) or _is_of_a_sampler(script, node):
        return ""
    if _FIGURE.search(near) or (divides and isinstance(beside, ast.Constant) and beside.value == 1):
        return ""
    around = _around(script, node).replace(ast.unparse(operand), "")
    if _CHOSEN.search(around):
        return _chosen(operand, divides)
    if _FIGURE.search(around) or _INDIFFERENT.search(around):
        return ""
    return _chosen(operand, divides) if _OF_STEPS.search(around) else UNSURE


def _chosen(operand: ast.expr, divides: bool) -> str:
    """`batch_size // gpus` is each process's share; `batch_size * gpus` may be DataParallel's, which is all of it."""
    return UNSURE if _OF_HOST.search(ast.unparse(operand)) and not divides else DEVICES


def _around(script: Script, node: ast.BinOp | ast.AugAssign) -> str:
    """The whole of the arithmetic, and what it is for."""
    top = _outermost(script, node)
    parent = script.parent(top)
    text = ast.unparse(top)
    if isinstance(parent, ast.keyword):
        return f"{parent.arg} {text}"
    if isinstance(parent, (ast.Assign, ast.AnnAssign)):
        target = parent.targets[0] if isinstance(parent, ast.Assign) else parent.target
        return f"{ast.unparse(target)} {text}"
    return text


def _outermost(script: Script, node: ast.AST) -> ast.AST:
    """The arithmetic that `node` is part of, conversions and roundings included."""
    top: ast.AST = node
    while True:
        parent = script.parent(top)
        if not isinstance(parent, (ast.BinOp, ast.UnaryOp)) and not (
            isinstance(parent, ast.Call)
            and top in parent.args
            and len(parent.args) <= 2
            and name_of(parent.func) in {"int", "float", "round", "ceil", "floor", "max", "min"}
        ):
            return top
        top = parent


def _is_of_a_sampler(script: Script, node: ast.AST) -> bool:
    """Within a sampler of the script's own, whose one share is all the data."""
    return any(
        isinstance(above, ast.ClassDef)
        and (
            above.name.endswith("Sampler") or any("Sampler" in ast.unparse(b) for b in above.bases)
        )
        for above in script.ancestors(node)
    )


def gathered_losses(script: Script) -> Iterator[ast.Call]:
    """Gathering, in what computes a loss, of other processes' features: backward may give nothing back for these."""
    for name in ("all_gather", "all_gather_into_tensor"):
        for call, _ in script.index.calls_of(name):
            around = [
                n for n in script.ancestors(call) if isinstance(n, (ast.ClassDef, ast.FunctionDef))
            ]
            if script.training.is_inference(call) and not any(map(_is_autograd, around)):
                continue
            if (script.dotted(call.func) or "").startswith("torch.distributed.nn."):
                continue  # its backward gives back all
            if any(_is_autograd(n) or _CONTRASTS.search(n.name) for n in around):
                yield call


_CONTRASTS = Pattern(r"loss|contrast|nce(?:$|_)|clip|feature", re.IGNORECASE)


def _is_autograd(node: ast.AST) -> bool:
    return isinstance(node, ast.ClassDef) and any(
        ast.unparse(base).endswith("Function") for base in node.bases
    )


def summed_losses(script: Script) -> Iterator[ast.expr]:
    """Losses that are sums over a batch, and not divided by what counts it."""
    for call, _ in script.index.of(ast.Call):
        is_option = _is_sum_of_loss(call) and not _is_evaluation(script, call)
        if is_option or (_is_plain_sum(call) and _is_differentiated(script, call)):
            if not _is_divided(script, call):
                yield call


def _is_sum_of_loss(call: ast.Call) -> bool:
    return is_literal(keyword(call, "reduction"), "sum") or is_literal(
        keyword(call, "size_average"), False
    )


def _is_plain_sum(call: ast.Call) -> bool:
    """`x.sum()`, `torch.sum(x)`."""
    if not (isinstance(call.func, ast.Attribute) and call.func.attr == "sum") or call.keywords:
        return False
    is_function = isinstance(call.func.value, ast.Name) and call.func.value.id == "torch"
    return len(call.args) == (1 if is_function else 0)


_EVALUATES = Pattern(r"eval|valid|(?:^|_)val(?:$|_)|test|predict|infer", re.IGNORECASE)


def _is_evaluation(script: Script, call: ast.Call) -> bool:
    """True if its sum is a figure: without gradients, read at once, or in a function that evaluates."""
    if script.training.is_inference(call):
        return True
    parent = script.parent(call)
    if isinstance(parent, ast.Attribute) and parent.attr in {"item", "detach", "data"}:
        return True
    function = script.function(call)
    return function is not None and _EVALUATES.search(function.name) is not None


def _is_divided(script: Script, call: ast.Call) -> bool:
    """`F.mse_loss(x, y, reduction="sum") / len(x)`, but not by a batch size that was chosen."""
    top: ast.AST = call
    while isinstance(parent := script.parent(top), (ast.BinOp, ast.UnaryOp)):
        if isinstance(parent, ast.BinOp) and isinstance(parent.op, ast.Div):
            if top is parent.right:
                return True  # it counts, itself
            return _CHOSEN.search(ast.unparse(parent.right)) is None
        top = parent
    return False


def _is_differentiated(script: Script, node: ast.expr | ast.AugAssign) -> bool:
    """True if gradients are taken of what `node` makes: `(loss * n).backward()`, `loss = loss * n` before it."""
    top = _outermost(script, node)
    parent = script.parent(top)
    if isinstance(parent, ast.Attribute) and parent.attr == "backward":
        return True
    if isinstance(parent, ast.Assign) and len(parent.targets) == 1:
        made = ast.unparse(parent.targets[0])
    elif isinstance(top, ast.AugAssign):
        made = ast.unparse(top.target)
    else:
        return False
    around = script.function(node) or script.tree
    return any(
        isinstance(call, ast.Call)
        and isinstance(call.func, ast.Attribute)
        and call.func.attr == "backward"
        and call.lineno >= node.lineno
        and made in map(unparsed, walk(call))  # `x.backward()`, `scaler.scale(x).backward()`
        for call in walk(around)
    )


_OF_REPLICAS = ("DistributedDataParallel", "DDP", "init_process_group", "spawn")


def is_of_replicas(script: ParsedFile) -> bool:
    """True if the script, or another module of its program, is one for several processes."""
    if any(script.index.calls_of(name) for name in _OF_REPLICAS):
        return True
    if script.source.mentions("deepspeed") and script.index.calls_of("initialize"):
        return True
    return script.project.mentions(*_OF_REPLICAS[:3])
