"""Sums, means and losses of selections by a mask, computed of the whole tensor: `xla.masked_mean(loss, mask)`."""

from __future__ import annotations

import ast
import copy
from collections.abc import Sequence

from ....edits import Replace
from ....flow.closure import ends
from ...nodes import walk
from ...script import Script
from ...syntax import below, keyword, name_of
from .masks import is_same_mask, made_of

_REDUCTIONS = frozenset({"mean", "sum"})
_OPERATORS: dict[type[ast.cmpop], str] = {
    ast.Eq: "eq",
    ast.GtE: "ge",
    ast.Gt: "gt",
    ast.LtE: "le",
    ast.Lt: "lt",
    ast.NotEq: "ne",
}
_COMPARISONS = frozenset(_OPERATORS.values())
# What is computed of a comparison of two selections: the runtime's function, and what follows it.
_COUNTS = {
    "{0}.sum()": ("masked_count", ""),
    "{0}.int().sum()": ("masked_count", ""),
    "{0}.long().sum()": ("masked_count", ""),
    "{0}.float().sum()": ("masked_count", ".float()"),
    "{0}.float().mean()": ("masked_share", ""),
}
_FUNCTIONS = (
    "binary_cross_entropy binary_cross_entropy_with_logits cross_entropy huber_loss l1_loss mse_loss nll_loss "
    "smooth_l1_loss"
).split()
_MODULES = "BCELoss BCEWithLogitsLoss CrossEntropyLoss HuberLoss L1Loss MSELoss NLLLoss SmoothL1Loss".split()
_LOSSES = frozenset(
    [f"torch.nn.functional.{name}" for name in _FUNCTIONS]
    + [f"torch.nn.{name}" for name in _MODULES]
)
# Methods whose result is the same before and after a selection.
_BY_ELEMENT = frozenset({"bool", "contiguous", "detach", "double", "float", "int", "long"})


def whole_reduction(
    script: Script, selection: ast.expr, values: ast.expr, mask: ast.expr, broadcast: bool
) -> tuple[str, Replace] | None:
    """Return the runtime's function and the edit for `values[mask].sum()`; None if the selection is used otherwise.

    `selection` is `values[mask]`, or a call of `masked_select`, which broadcasts both. Selections by one mask may be
    compared: `(output[mask] == labels[mask]).sum()`.
    """
    options = ", broadcast=True" if broadcast else ""
    compared = _compared(script, selection)
    selections = {} if compared is None else _operands(compared, selection)
    reduced = _with_methods(script, selection if compared is None else compared)
    call = _reduction(script, reduced)
    if call is None or (compared is not None and not selections):
        return None
    if compared is not None and len(selections) == 2:
        kind = f"{_as_template(reduced, [compared])}.{name_of(call.func)}()"
        name, after = _COUNTS.get(kind, ("", ""))
        whole, options = _whole_operands(script, compared, selections), f"mask={{2}}{options}"
        edit = Replace(
            call,
            f"{script.xla}.{name}({whole}, {options}){after}",
            (*(each.value for each in selections), mask),
        )
        return (f"xla.{name}", edit) if name else None
    name = f"masked_{name_of(call.func)}"
    whole = _as_template(reduced, [*selections.values()] or [selection])
    of = next(iter(selections)).value if selections else values
    return f"xla.{name}", Replace(call, f"{script.xla}.{name}({whole}, {{1}}{options})", (of, mask))


def _whole_operands(
    script: Script, compared: ast.expr, selections: dict[ast.Subscript, ast.expr]
) -> str:
    """Return the arguments `torch.eq, x, y.long()` of a function that compares what `x[mask] == y[mask].long()` does.

    Outside of a function, `x == y` would broadcast differently for some shapes.
    """
    operator, sides = _sides(compared)
    whole = [
        _as_template(side, [part], k)
        for k, (side, part) in enumerate(zip(sides, selections.values()))
    ]
    function = script.spell(f"torch.{operator}", script.index.scope(compared))
    return ", ".join([function, *whole])


def _sides(compared: ast.expr) -> tuple[str, list[ast.expr]]:
    """Return the name of a comparison, and what is compared."""
    match compared:
        case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in _OPERATORS:
            return _OPERATORS[type(op)], [left, right]
        case ast.Call(func=ast.Attribute(value=left, attr=name), args=[right], keywords=[]):
            return name, [left, right]
        case ast.Call(func=ast.Attribute(attr=name), args=[left, right], keywords=[]):
            return name, [left, right]  # torch.eq(x[mask], y[mask])
    return "", []


def _reduction(script: Script, reduced: ast.expr) -> ast.Call | None:
    """Return the call of `x.mean()`, `torch.sum(x)` on `reduced`; None if there is none, or one with a dimension."""
    around = script.parent(reduced)
    call = script.parent(around) if isinstance(around, ast.Attribute) else around
    match call:
        case ast.Call(func=ast.Attribute(value=owner, attr=name), args=[], keywords=[]):
            return call if owner is reduced and name in _REDUCTIONS else None
        case ast.Call(func=ast.Attribute(), args=[argument], keywords=[]) if argument is reduced:
            return call if script.dotted(call.func) in {"torch.mean", "torch.sum"} else None
    return None


def _compared(script: Script, selection: ast.expr) -> ast.expr | None:
    """Return the comparison whose operand is `selection`: `x[mask] == y[mask]`, `x[mask].eq(y[mask])`."""
    operand = _with_methods(script, selection)
    around = script.parent(operand)
    match around:
        case ast.Compare():
            return around
        case ast.Attribute(attr=name) if name in _COMPARISONS:
            call = script.parent(around)
            return call if isinstance(call, ast.Call) and len(call.args) == 1 else None
        case ast.Call(func=ast.Attribute(attr=name), args=[_] | [_, _]) if name in _COMPARISONS:
            return around
    return None


def _operands(compared: ast.expr, selection: ast.expr) -> dict[ast.Subscript, ast.expr]:
    """Return the selections that are compared; none if something else than them and numbers is."""
    sides = (each for each in _sides(compared)[1] if not isinstance(each, ast.Constant))
    found = [below(side, _BY_ELEMENT) for side in sides]
    selections = {chosen: each for each in found if (chosen := _chosen(each)) is not None}
    this = _chosen(selection)
    if len(selections) < len(found) or this is None:
        return {}
    return selections if all(is_same_mask(each, this) for each in selections) else {}


def _chosen(node: ast.expr) -> ast.Subscript | None:
    """Return `x[mask]`, also for `x.masked_select(mask)`."""
    match node:
        case ast.Subscript():
            return node
        case ast.Call(func=ast.Attribute(value=x, attr="masked_select"), args=[mask], keywords=[]):
            return ast.Subscript(x, mask, ast.Load())
    return None


def whole_loss(script: Script, selection: ast.expr) -> tuple[str, Replace] | None:
    """Return the runtime's function and the edit for `loss(x[mask], y[mask])`; None if `selection` is used otherwise."""
    around = (each for each in script.ancestors(selection) if isinstance(each, ast.Call))
    call = next((each for each in around if each.args), None)
    if call is None or len(call.args) != 2 or not _is_loss(script, call):
        return None
    if any(
        isinstance(part, (ast.Starred, ast.Subscript)) for k in call.keywords for part in walk(k)
    ):
        return None  # a weight for each selected row
    output, target = (below(argument, _BY_ELEMENT) for argument in call.args)
    if not (isinstance(output, ast.Subscript) and isinstance(target, ast.Subscript)):
        return None
    if selection not in (output, target) or not is_same_mask(output, target):
        return None
    holes = [call.func, output.value, target.value, output.slice, *(k.value for k in call.keywords)]
    pairs = enumerate(zip(call.args, (output, target)), 1)
    whole = [_as_template(argument, [part], first=k) for k, (argument, part) in pairs]
    names = [f"{k.arg}=" if k.arg else "**" for k in call.keywords]
    keywords = [f"{name}{{{number}}}" for number, name in enumerate(names, 4)]
    operands = ", ".join(["{0}", *whole, "mask={3}", *keywords])
    return "xla.masked_loss", Replace(call, f"{script.xla}.masked_loss({operands})", tuple(holes))


def _is_loss(script: Script, call: ast.Call) -> bool:
    """Return True for a call of a loss of torch, or of a module of one, that adds or averages: `F.mse_loss`, `self.criterion`."""
    made = [*ends([call.func], lambda node: made_of(script, node))]
    calls = [call, *(node for node in made if isinstance(node, ast.Call))]
    return not any(map(_keeps_elements, calls)) and any(
        script.dotted(node.func if isinstance(node, ast.Call) else node) in _LOSSES for node in made
    )


def _keeps_elements(call: ast.Call) -> bool:
    """Return True for `reduction="none"`, whose result has the size of the selection."""
    value = keyword(call, "reduction")
    return isinstance(value, ast.Constant) and value.value == "none"


def _with_methods(script: Script, node: ast.expr) -> ast.expr:
    """Return `y[mask].long()`, around `y[mask]`."""
    around = script.parent(node)
    call = script.parent(around) if isinstance(around, ast.Attribute) else None
    if (
        not isinstance(call, ast.Call)
        or call.func is not around
        or below(call, _BY_ELEMENT) is call
    ):
        return node
    return _with_methods(script, call)


def _as_template(node: ast.expr, selections: Sequence[ast.expr], first: int = 0) -> str:
    """Return the text of `node` with holes in place of `selections`, numbered from `first`."""
    names = [f"_hole_{number}_" for number in range(first, first + len(selections))]
    holes = {id(each): ast.Name(name) for each, name in zip(selections, names)}
    text = ast.unparse(copy.deepcopy(node, holes)).replace("{", "{{").replace("}", "}}")
    for number, name in enumerate(names, first):
        text = text.replace(name, f"{{{number}}}")
    return text
