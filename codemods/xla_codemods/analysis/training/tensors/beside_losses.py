"""Tensors that a training step computes from what its loss is computed from: `clip_fraction`, `approx_kl`, an entropy.

Torch computes with tensors of one device alone, so they are on the loss's device.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from ....flow.closure import reach
from ...frameworks.accelerator import uses_accelerate
from ...frameworks.hooks import called_in_steps
from ...inference.values import HOST, MODULE, TENSOR
from ...nodes import walk
from ...syntax import dict_entries

if TYPE_CHECKING:
    from ...scopes import Binding, FunctionNode
    from ...script import Script

# Methods whose results are on the host, or on another device than their tensor.
_LEAVES = frozenset({"cpu", "cuda", "item", "numpy", "size", "stride", "to", "tolist"})
# Methods that compute a tensor from the output of a model, whose class is not known.
_OF_OUTPUTS = frozenset(
    "abs all any argmax argmin clamp detach double eq exp flatten float gt log log_softmax long lt max mean min ne norm "
    "pow reshape sigmoid softmax sqrt squeeze std sum unsqueeze var view".split()
)
_OUTPUTS = frozenset({"logits", "loss", "last_hidden_state", "pooler_output"})


def is_computed_with(script: Script, node: ast.expr, losses: Iterable[ast.expr]) -> bool:
    """Return True if `node` is computed from a name of this function that one of `losses` is computed from, too."""
    function = script.function(node)
    is_led = function in called_in_steps(script)
    if not (is_led or script.accelerated or uses_accelerate(script)):
        return False
    known = script.cached(_known)
    if function not in known:
        own = [n for n in losses if isinstance(n, ast.Name) and script.function(n) is function]
        known[function] = _names_behind(script, [*own, *returned_losses(script, function)])
    return not known[function].isdisjoint(_names_behind(script, [node]))


def returned_losses(script: Script, function: FunctionNode | None) -> Iterator[ast.Name]:
    """Yield the losses that a `training_step` or `compute_loss` returns to its framework: `return loss, outputs`."""
    if (
        isinstance(function, ast.FunctionDef)
        and function.name in {"compute_loss", "training_step"}
        and function in called_in_steps(script)
    ):
        for node in walk(function):
            if isinstance(node, ast.Return) and node.value is not None:
                yield from _losses_in(node.value)


def _losses_in(returned: ast.expr) -> Iterator[ast.Name]:
    match returned:
        case ast.Name():
            yield returned
        case ast.IfExp(body=body, orelse=orelse):
            yield from _losses_in(body)
            yield from _losses_in(orelse)
        case ast.Tuple(elts=[first, *_]):
            yield from _losses_in(first)
        case ast.Dict() as entries:
            for key, value in dict_entries(entries):
                if key == "loss":
                    yield from _losses_in(value)


def _known(script: Script) -> dict[FunctionNode | None, frozenset[str]]:
    """Return an empty table: the names behind the losses of each function."""
    return {}


def is_computed_from_a_forward(script: Script, node: ast.expr) -> bool:
    """Return True if a tensor that is computed for `node` is what a model returns: `logits = model(ids)[:, -1]`."""
    return any(
        isinstance(part, ast.Call) and script.training.is_forward(part, script.index.scope(part))
        for part in _behind(script, [node])
    )


def _behind(script: Script, nodes: Iterable[ast.expr]) -> Iterable[ast.expr]:
    """Return `nodes` and what they are computed from on their own device, also by way of names."""

    def step(part: ast.expr) -> list[ast.expr]:
        return _values(script, part) if isinstance(part, ast.Name) else _parts(script, part)

    return reach(nodes, step)


def _names_behind(script: Script, nodes: Iterable[ast.expr]) -> frozenset[str]:
    """Return the names of tensors that `nodes` are computed from on their own device, names among them included."""
    names = (part for part in _behind(script, nodes) if isinstance(part, ast.Name))
    return frozenset(name.id for name in names if _values(script, name))


def _values(script: Script, name: ast.Name) -> list[ast.expr]:
    """Return the expressions that may have given `name`; nothing if one is unknown, on the host or not a tensor."""
    values = [_computing(script, binding) for binding in script.reaching(name)]
    return [value for value in values if value is not None] if all(values) else []


def _computing(script: Script, binding: Binding) -> ast.expr | None:
    value = binding.value
    if binding.how not in {"assign", "augment"} or binding.path or value is None:
        return None
    if not isinstance(value, (ast.BinOp, ast.Call, ast.Name, ast.Subscript, ast.UnaryOp)):
        return None
    found = script.value(value)
    is_tensor = not found.kinds or (found.has(TENSOR) and not found.has(HOST))
    return value if is_tensor and not _leaves(value) else None


def _leaves(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and getattr(node.func, "attr", "") in _LEAVES


def _parts(script: Script, node: ast.expr) -> list[ast.expr]:
    """Return what an operation, a method of a tensor or a function of torch computes from."""
    match node:
        case ast.BinOp(left=left, right=right):
            return [left, right]
        case ast.Compare(left=left, comparators=[right]):
            return [left, right]
        case ast.UnaryOp(operand=operand) if not isinstance(node.op, ast.Not):
            return [operand]
        case ast.Subscript(value=whole, slice=index):
            is_tensor = isinstance(index, (ast.Slice, ast.Tuple)) or script.value(node).has(TENSOR)
            return [whole] if is_tensor else []
        case ast.Attribute(value=output, attr=name) if name in _OUTPUTS:
            return [output]
        case ast.Call(func=func, args=args) if not _leaves(node):
            dotted = script.dotted(func)
            if dotted is not None:
                return args if dotted.startswith("torch.") else []
            if script.value(func).has(MODULE) or _is_called_a_loss(func):
                return args
            if isinstance(func, ast.Attribute) and (
                script.value(node).has(TENSOR) or func.attr in _OF_OUTPUTS
            ):
                return [func.value]
    return []


def _is_called_a_loss(func: ast.expr) -> bool:
    """`self.loss_fn`, `criterion`."""
    name = getattr(func, "attr", getattr(func, "id", ""))
    return name.endswith(("loss", "loss_fn", "loss_func", "loss_function", "criterion"))
