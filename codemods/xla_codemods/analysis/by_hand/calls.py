"""Calls of torch_xla's functions: their arguments, and the runtime's function in their place."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...catalog.torch_xla import REMOVED_ARGUMENTS
from ...edits import Edit, Replace

if TYPE_CHECKING:
    from ..scopes import Scope
    from ..script import Script

# The module of devices, steps and collectives.
XM = "torch_xla.core.xla_model"
# The module of ranks and of what the process has.
XR = "torch_xla.runtime"

# What stays works with torch_xla, and keeps the script from running anywhere else.
KEPT = "it is kept and needs torch_xla"


def renamed(script: Script, call: ast.Call, name: str) -> Edit:
    """The runtime's function `name` in the place of what is called."""
    return Replace(call.func, f"{script.xla}.{name}")


def given(call: ast.Call, order: Sequence[str]) -> dict[str, ast.expr] | None:
    """Return the arguments of `call` by name, positional ones in this `order`; None if that is unknown."""
    if len(call.args) > len(order) or any(isinstance(a, ast.Starred) for a in call.args):
        return None
    found = dict(zip(order, call.args))
    for argument in call.keywords:
        if argument.arg is None or argument.arg not in order:
            return None
        found[argument.arg] = argument.value
    return found


def is_refused(script: Script, call: ast.Call, scope: Scope) -> bool:
    """Return True if torch_xla 2.9 no longer takes these arguments: the call is reported and kept."""
    refused = REMOVED_ARGUMENTS.get(script.dotted(call.func, scope) or "", {})
    first = (
        call.args[0] if call.args and "devkind" in refused else None
    )  # a kind, once; a number now
    of_kinds = first is not None and not isinstance(getattr(first, "value", None), int)
    return of_kinds or any(k.arg in refused for k in call.keywords)


def is_constant(node: ast.expr | None, *values: object) -> bool:
    """True if `node` is absent, or one of these constants."""
    if node is None:
        return True
    return isinstance(node, ast.Constant) and any(node.value is value for value in values)
