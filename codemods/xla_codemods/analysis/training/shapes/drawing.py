"""Numbers that are drawn: of `random`, of numpy, of a torch generator on the host, and by functions of the file that do."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ....flow.calls import named
from ....flow.closure import reach
from ...nodes import walk
from ...parsed_file import ParsedFile
from ...syntax import keyword, returned

_NUMBERS = frozenset(
    {f"random.{name}" for name in "choice choices gauss randint random randrange uniform".split()}
    | {
        f"numpy.random.{name}"
        for name in "beta binomial choice normal rand randint randn random random_sample uniform".split()
    }
)
# Where numpy's functions take the size of an array; without one they draw a number.
_SIZE = {
    "beta": 2,
    "binomial": 2,
    "choice": 1,
    "normal": 2,
    "rand": 0,
    "randint": 2,
    "randn": 0,
    "random": 0,
    "random_sample": 0,
    "uniform": 2,
}
_TENSORS = frozenset(f"torch.{name}" for name in "rand randint randn randperm".split())


def is_drawing(script: ParsedFile, call: ast.Call) -> bool:
    """`random.randint(0, 9)`, `torch.randint(0, 9, (1,)).item()`, `int(torch.randint(0, 9, (1,)))`."""
    func = call.func
    match call:
        case ast.Call(func=ast.Name(id="int"), args=[ast.Call(func=drawn)]):
            return script.dotted(drawn) in _TENSORS
    if isinstance(func, ast.Attribute) and func.attr == "item" and isinstance(func.value, ast.Call):
        return script.dotted(func.value.func) in _TENSORS
    return script.dotted(func) in _NUMBERS


def draws_a_tensor(script: ParsedFile, call: ast.Call) -> bool:
    """`torch.rand(1)`, on the host."""
    return script.dotted(call.func) in _TENSORS and keyword(call, "device") is None


def draws_an_array(script: ParsedFile, call: ast.Call) -> bool:
    """`numpy.random.choice(n, size=8)`, `numpy.random.randn(3, 4)`."""
    module, _, name = (script.dotted(call.func) or "").rpartition(".")
    if module != "numpy.random":
        return False
    return keyword(call, "size") is not None or len(call.args) > _SIZE.get(name, len(call.args))


def gives_drawn(script: ParsedFile, call: ast.Call, index: int) -> bool:
    """True if the item `index` of what `call`, of a function of this file, returns is reckoned from a number drawn."""
    function = named(script, call.func)
    tuples = [v for v in (returned(function) if function else ()) if isinstance(v, ast.Tuple)]

    def made_of(node: ast.expr) -> Iterator[ast.expr]:
        for name in walk(node):
            bindings = script.bindings(name) if isinstance(name, ast.Name) else ()
            inside = (b for b in bindings if script.function(b.node) is function)
            yield from (b.value for b in inside if b.how == "assign" and b.value is not None)

    made = reach((value.elts[index] for value in tuples if index < len(value.elts)), made_of)
    parts = (part for node in made for part in walk(node))
    return any(isinstance(part, ast.Call) and is_drawing(script, part) for part in parts)
