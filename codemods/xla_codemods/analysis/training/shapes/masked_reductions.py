"""Sums and means of selections by a mask, computed of the whole tensor: `xla.masked_mean(loss, mask)`."""

from __future__ import annotations

import ast

from ....edits import Replace
from ...script import Script

_REDUCTIONS = frozenset({"mean", "sum"})


def whole_reduction(
    script: Script, selection: ast.expr, values: ast.expr, mask: ast.expr, broadcast: bool
) -> tuple[str, Replace] | None:
    """Return the runtime's function and the edit for `values[mask].sum()`; None if the selection is used otherwise.

    `selection` is `values[mask]`, or a call of `masked_select`, which broadcasts both.
    """
    around = script.parent(selection)
    call = script.parent(around) if isinstance(around, ast.Attribute) else around
    if not isinstance(call, ast.Call) or call.keywords:
        return None
    match call:
        case ast.Call(func=ast.Attribute(value=owner, attr=name), args=[]) if owner is selection:
            pass
        case ast.Call(args=[argument]) if argument is selection:
            home, _, name = (script.dotted(call.func) or "").rpartition(".")
            name = name if home == "torch" else ""
        case _:
            return None
    if name not in _REDUCTIONS:
        return None
    text = f"{script.xla}.masked_{name}({{0}}, {{1}}{', broadcast=True' if broadcast else ''})"
    return f"xla.masked_{name}", Replace(call, text, (values, mask))
