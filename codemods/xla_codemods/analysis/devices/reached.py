"""Names of CUDA devices that reach a call of torch in a form that is not rewritten.

They are made of parts, read from the environment, elements of a list, or defaults of a class.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ...flow.closure import reach
from .literal_context import ELSEWHERE, KEPT, SINK, place
from .made_of import MadeOf
from .specs import TENSOR_METHODS

if TYPE_CHECKING:
    from ..script import Script

_UNBOUND = frozenset({"torch.Tensor.to", "torch.nn.Module.to", "operator.methodcaller"})


def reaching(script: Script) -> list[ast.expr]:
    """Return the strings that stay and become the device of a tensor or module, in order."""
    literals = script.device_literals.all
    left = {
        found.spec.node
        for found in literals
        if found.place == ELSEWHERE or (found.place == KEPT and found.spec.ordinal is None)
    }
    if not left:
        return []
    found = reach(_sinks(script), MadeOf(script).parts)
    return sorted(found.keys() & left, key=lambda node: (node.lineno, node.col_offset))


def _sinks(script: Script) -> Iterator[ast.expr]:
    """What calls take for a device."""
    for call, scope in script.index.of(ast.Call):
        name = call.func.attr if isinstance(call.func, ast.Attribute) else ""
        dotted = script.dotted(call.func, scope) or ""
        if not (name in TENSOR_METHODS or dotted.startswith("torch.") or dotted in _UNBOUND):
            continue
        for given in (*call.args, *(keyword.value for keyword in call.keywords)):
            if dotted in _UNBOUND:
                is_one = given is not call.args[0]
            elif isinstance(given, ast.Starred):
                is_one = dotted == "torch.device" or name == "to"
            else:
                is_one = not isinstance(given, ast.Constant) and place(script, given) == SINK
            if is_one:
                yield given
