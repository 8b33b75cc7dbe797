"""Iterables of Python numbers: `range`, also through names, slices, `zip` and `enumerate`."""

from __future__ import annotations

import ast
from typing import TypeAlias

from ....flow.closure import reach
from ....flow.edges import sources
from ...devices.specs import last_name
from ...script import Script

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
_PASSING = frozenset({"iter", "list", "reversed", "sorted", "tqdm", "tuple"})
_SAME = frozenset({"astype", "copy", "tolist"})
_COUNTING = frozenset({"count", "range", "trange"})
_ARRAYS = frozenset({"numpy.arange", "numpy.linspace"})


def _count(script: Script, elements: _Elements) -> bool:
    iterable, path = elements
    if not isinstance(iterable, ast.Call):
        return False
    if last_name(iterable.func) == "enumerate" and iterable.args:
        return path[:1] == (0,)
    is_one = last_name(iterable.func) in _COUNTING or script.dotted(iterable.func) in _ARRAYS
    return is_one and not path and not _are_few(iterable)


def _iterated(script: Script, iterable: ast.expr, path: tuple[int, ...]) -> list[_Elements]:
    """Return the iterables that the elements of `iterable` come from."""
    match iterable:
        case ast.Name() | ast.Attribute():
            return [(source, path) for source in sources(script, iterable)]
        case ast.Subscript(value=owner, slice=ast.Slice()):
            return [(owner, path)]
        case ast.BinOp(op=ast.Add(), left=left, right=right):
            return [(left, path), (right, path)]
        case ast.Call(func=ast.Attribute(value=owner, attr=name)) if name in _SAME:
            return [(owner, path)]
        case ast.Call(func=func, args=[first, *_] as args):
            name = last_name(func) or ""
            if name == "enumerate":
                return [(first, path[1:])] if path[:1] == (1,) else []
            if name == "zip":
                return [(each, path[1:]) for k, each in enumerate(args) if path[:1] == (k,)]
            return [(first, path)] if name in _PASSING else []
    return []


def _are_few(call: ast.Call) -> bool:
    """`range(4)`, `range(0, 64, 16)`: the same few numbers, each compiled once."""
    numbers = [
        a.value for a in call.args if isinstance(a, ast.Constant) and isinstance(a.value, int)
    ]
    if not numbers or len(numbers) != len(call.args) or (len(numbers) > 2 and not numbers[2]):
        return False
    return len(range(*numbers)) <= FEW
