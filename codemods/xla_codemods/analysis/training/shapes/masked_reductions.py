"""Sums and means of selections by a mask, computed of the whole tensor: `xla.masked_mean(loss, mask)`."""

from __future__ import annotations

import ast

from ....edits import Replace
from ...script import Script
from ...syntax import name_of
from .masks import is_same_mask
from .selections import as_template, with_methods, without_methods

_REDUCTIONS = frozenset({"mean", "sum"})
_COMPARISONS = frozenset({"eq", "ge", "gt", "le", "lt", "ne"})


def whole_reduction(
    script: Script, selection: ast.expr, values: ast.expr, mask: ast.expr, broadcast: bool
) -> tuple[str, Replace] | None:
    """Return the runtime's function and the edit for `values[mask].sum()`; None if the selection is used otherwise.

    `selection` is `values[mask]`, or a call of `masked_select`, which broadcasts both. Selections by one mask may be
    compared: `(output[mask] == labels[mask]).sum()`.
    """
    reduced, operands, holes = selection, [selection], [values, mask]
    compared = _compared(script, selection)
    if compared is not None:
        selections = _operands(compared, selection)
        operands, holes = [*selections], [*(each.value for each in selections), mask]
        reduced = with_methods(script, compared)
    call = _reduction(script, reduced)
    if call is None or not operands:
        return None
    name = name_of(call.func)
    whole, of = as_template(reduced, operands), f"{{{len(operands)}}}"
    text = f"{script.xla}.masked_{name}({whole}, {of}{', broadcast=True' if broadcast else ''})"
    return f"xla.masked_{name}", Replace(call, text, tuple(holes))


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
    operand = with_methods(script, selection)
    around = script.parent(operand)
    match around:
        case ast.Compare(
            ops=[ast.Eq() | ast.NotEq() | ast.Gt() | ast.GtE() | ast.Lt() | ast.LtE()]
        ):
            return around
        case ast.Attribute(attr=name) if name in _COMPARISONS:
            call = script.parent(around)
            return call if isinstance(call, ast.Call) and len(call.args) == 1 else None
        case ast.Call(func=ast.Attribute(attr=name), args=[_]) if name in _COMPARISONS:
            return around
    return None


def _operands(compared: ast.expr, selection: ast.expr) -> list[ast.Subscript]:
    """Return the selections that are compared; none if something else than them and numbers is."""
    match compared:
        case ast.Compare(left=left, comparators=[right]):
            sides = [left, right]
        case ast.Call(func=ast.Attribute(value=left), args=[right]):
            sides = [left, right]
        case _:
            return []
    found = [without_methods(side) for side in sides if not isinstance(side, ast.Constant)]
    selections = [each for each in found if isinstance(each, ast.Subscript)]
    if len(selections) < len(found) or not isinstance(selection, ast.Subscript):
        return []
    return selections if all(is_same_mask(each, selection) for each in selections) else []
