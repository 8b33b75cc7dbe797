"""Numbers that are drawn: of `random`, of numpy, of a torch generator on the host, and by functions of the file that do."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from ...nodes import walk
from ...syntax import keyword, returned

if TYPE_CHECKING:
    from ...parsed_file import ParsedFile
    from ...scopes import FunctionNode

_NUMBERS = frozenset(
    {f"random.{name}" for name in "choice choices gauss randint random randrange uniform".split()}
    | {
        f"numpy.random.{name}"
        for name in "beta choice normal rand randint randn random uniform".split()
    }
)
# Where numpy's functions take the size of an array; without one they draw a number.
_SIZE = {
    "beta": 2,
    "choice": 1,
    "normal": 2,
    "rand": 0,
    "randint": 2,
    "randn": 0,
    "random": 0,
    "uniform": 2,
}
_TENSORS = frozenset(f"torch.{name}" for name in "rand randint randn randperm".split())


def is_drawing(script: ParsedFile, call: ast.Call) -> bool:
    """`random.randint(0, 9)`, `torch.randint(0, 9, (1,)).item()`."""
    func = call.func
    if isinstance(func, ast.Attribute) and func.attr == "item" and isinstance(func.value, ast.Call):
        return script.dotted(func.value.func) in _TENSORS
    return script.dotted(func) in _NUMBERS


def draws_an_array(script: ParsedFile, call: ast.Call) -> bool:
    """`numpy.random.choice(n, size=8)`, `numpy.random.randn(3, 4)`."""
    module, _, name = (script.dotted(call.func) or "").rpartition(".")
    if module != "numpy.random":
        return False
    return keyword(call, "size") is not None or len(call.args) > _SIZE.get(name, len(call.args))


def gives_drawn(script: ParsedFile, call: ast.Call, index: int) -> bool:
    """True if the item `index` of what `call`, of a function of this file, returns is reckoned from a number drawn."""
    function = script.value(call.func).definition
    if not isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return False
    return any(
        isinstance(value, ast.Tuple)
        and index < len(value.elts)
        and _is_reckoned(script, value.elts[index], function, set())
        for value in returned(function)
    )


def _is_reckoned(
    script: ParsedFile, node: ast.expr, function: FunctionNode, asked: set[str]
) -> bool:
    for part in walk(node):
        if isinstance(part, ast.Call) and is_drawing(script, part):
            return True
        if isinstance(part, ast.Name) and part.id not in asked:
            asked.add(part.id)
            found = script.index.scope(part).find(part.id)
            if found is None or found[0].node is not function:
                continue
            for binding in found[1]:
                if binding.how == "assign" and binding.value is not None:
                    if _is_reckoned(script, binding.value, function, asked):
                        return True
    return False
