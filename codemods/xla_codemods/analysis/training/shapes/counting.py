"""Python numbers that are another in each turn: of `range`, also through names, slices, `zip` and `enumerate`, and drawn ones."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import TypeAlias

from ....flow.closure import reach
from ....flow.containers import appended
from ....flow.edges import sources
from ....flow.iterables import iterable_of
from ...devices.specs import last_name
from ...nodes import walk
from ...parsed_file import ParsedFile
from ...script import Script
from ...syntax import keyword

FEW = 4  # graphs that may as well be compiled


def counts(script: Script, iterable: ast.expr, path: tuple[int, ...]) -> bool:
    """Return True if what `path` takes of an element of `iterable` is a number: of `range`, also through names and
    `zip`, or the index of `enumerate`.
    """
    start: list[_Elements] = [(iterable, path)]
    return any(_count(script, each) for each in reach(start, lambda e: _iterated(script, *e)))


_Elements: TypeAlias = (
    "tuple[ast.expr, tuple[int, ...]]"  # what is iterated, and a part of each element
)

# Functions and methods that return the elements that they receive, those that count, and arrays of numbers.
_PASSING = frozenset({"iter", "list", "reversed", "set", "sorted", "tqdm", "tuple"})
_SAME = frozenset({"astype", "copy", "tolist"})
_COUNTING = frozenset({"count", "range", "trange"})
_POSITIONS = frozenset({"torch.arange", "torch.linspace"})
_ARRAYS = frozenset({"numpy.arange", "numpy.linspace"})


def _count(script: Script, elements: _Elements) -> bool:
    iterable, path = elements
    if not isinstance(iterable, ast.Call):
        return False
    if last_name(iterable.func) == "enumerate" and iterable.args:
        return path[:1] == (0,)
    if last_name(iterable.func) == "tolist":
        return not path and _are_positions(script, iterable)
    is_one = last_name(iterable.func) in _COUNTING or script.dotted(iterable.func) in _ARRAYS
    return is_one and not path and not _are_few(iterable)


def _are_positions(script: Script, node: ast.expr) -> bool:
    """Return True for `torch.linspace(0, 99, 10)`, also rounded, reversed and through names."""

    def before(each: ast.expr) -> Sequence[ast.expr]:
        match each:
            case ast.Call(func=ast.Attribute(value=owner)) | ast.Subscript(value=owner):
                return [owner]
            case ast.BinOp(left=left, right=right):
                return [left, right]
        return sources(script, each)

    calls = (each for each in reach([node], before) if isinstance(each, ast.Call))
    return any(script.dotted(call.func) in _POSITIONS for call in calls)


def _iterated(script: Script, iterable: ast.expr, path: tuple[int, ...]) -> list[_Elements]:
    """Return the iterables that the elements of `iterable` come from."""
    match iterable:
        case ast.Name() | ast.Attribute():
            added = (e for each in appended(script, iterable) for e in _made_of(script, each, path))
            return [*((source, path) for source in sources(script, iterable)), *added]
        case ast.ListComp(elt=element) | ast.GeneratorExp(elt=element):
            return [*_made_of(script, element, path)]
        case ast.Subscript(value=owner, slice=ast.Slice()):
            return [(owner, path)]
        case ast.BinOp(left=left, right=right):
            return [(left, path), (right, path)]
        case ast.Call(func=ast.Attribute(value=owner, attr=name)) if name in _SAME:
            return [(owner, path)]
        case ast.Call(func=func, args=[first, *_]):
            below = iterable_of(iterable, path)
            if below[0] is not iterable:
                return [below]
            if last_name(func) in _PASSING:
                return [(first, path)]
    return [(source, path) for source in sources(script, iterable)]


def _made_of(script: Script, element: ast.expr, path: tuple[int, ...]) -> Iterator[_Elements]:
    """Yield the iterables whose numbers the part at `path` of the element of a list is computed from: `y * 16`."""
    for step in path:
        parts = element.elts if isinstance(element, ast.Tuple) else []
        if step >= len(parts):
            return
        element = parts[step]
    for name in (node for node in walk(element) if isinstance(node, ast.Name)):
        for binding in script.reaching(name):
            if binding.how == "for" and binding.value is not None:
                yield binding.value, binding.path[1:]


def _are_few(call: ast.Call) -> bool:
    """`range(4)`, `range(0, 64, 16)`: the same few numbers, each compiled once."""
    numbers = [
        a.value for a in call.args if isinstance(a, ast.Constant) and isinstance(a.value, int)
    ]
    if not numbers or len(numbers) != len(call.args) or (len(numbers) > 2 and not numbers[2]):
        return False
    return len(range(*numbers)) <= FEW


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
