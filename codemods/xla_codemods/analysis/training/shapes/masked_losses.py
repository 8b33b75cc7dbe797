"""Losses of selections by one mask, computed without selecting: `xla.masked_loss(F.mse_loss, x, y, mask=mask)`."""

from __future__ import annotations

import ast

from ....edits import Replace
from ....flow.closure import ends
from ...nodes import walk
from ...script import Script
from .masks import is_same_mask, made_of
from .selections import as_template, without_methods

_FUNCTIONS = (
    "binary_cross_entropy binary_cross_entropy_with_logits cross_entropy huber_loss l1_loss mse_loss nll_loss "
    "smooth_l1_loss"
).split()
_MODULES = "BCELoss BCEWithLogitsLoss CrossEntropyLoss HuberLoss L1Loss MSELoss NLLLoss SmoothL1Loss".split()
_LOSSES = frozenset(
    [f"torch.nn.functional.{name}" for name in _FUNCTIONS]
    + [f"torch.nn.{name}" for name in _MODULES]
)


def whole_loss(script: Script, selection: ast.expr) -> tuple[str, Replace] | None:
    """Return the runtime's function and the edit for `loss(x[mask], y[mask])`; None if `selection` is used otherwise."""
    call = next(
        (each for each in script.ancestors(selection) if isinstance(each, ast.Call) and each.args),
        None,
    )
    if call is None or len(call.args) != 2 or not _is_loss(script, call.func):
        return None
    if any(
        isinstance(part, (ast.Starred, ast.Subscript)) for k in call.keywords for part in walk(k)
    ):
        return None  # a weight for each selected row
    output, target = (without_methods(argument) for argument in call.args)
    if not (isinstance(output, ast.Subscript) and isinstance(target, ast.Subscript)):
        return None
    if selection not in (output, target) or not is_same_mask(output, target):
        return None
    holes = [call.func, output.value, target.value, output.slice, *(k.value for k in call.keywords)]
    whole = [
        as_template(call.args[0], [output], first=1),
        as_template(call.args[1], [target], first=2),
    ]
    keywords = [
        f"{k.arg}={{{number}}}" if k.arg else f"**{{{number}}}"
        for number, k in enumerate(call.keywords, 4)
    ]
    operands = ["{0}", *whole, "mask={3}", *keywords]
    return "xla.masked_loss", Replace(
        call, f"{script.xla}.masked_loss({', '.join(operands)})", tuple(holes)
    )


def _is_loss(script: Script, func: ast.expr) -> bool:
    """Return True for a loss of torch, or a module of one: `F.mse_loss`, `self.criterion`."""
    made = ends([func], lambda node: made_of(script, node))
    return any(
        script.dotted(node.func if isinstance(node, ast.Call) else node) in _LOSSES for node in made
    )
