"""Sizes of device tensors that are another in each step: of a counter, a schedule, a list of stages or a warm-up."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from enum import IntEnum
from itertools import islice
from typing import NamedTuple

from ....flow.calls import call_with
from ....flow.closure import reach
from ....flow.containers import appended
from ....flow.edges import sources, uses
from ...devices.specs import last_name
from ...inference.library_types import RUNTIME
from ...inference.values import ACCEL, TENSOR
from ...once import once
from ...scopes import FunctionNode
from ...script import Script
from ...syntax import keyword, returned, text_of
from ..training import FORWARD
from ..turns import in_each_step
from .counters import Counters
from .counting import FEW, counts
from .cutting import length_of
from .prepared import as_prepared
from .sums import computed_with

_SHAPES = frozenset({"empty", "ones", "rand", "randn", "zeros", "eye", "randperm"})
_METHODS = frozenset(
    {"expand", "new_empty", "new_ones", "new_zeros", "repeat", "reshape", "tile", "view"}
)
_JOINING = frozenset({"cat", "concat", "concatenate", "hstack", "stack", "vstack"})
_COMPUTING = frozenset(
    {"abs", "ceil", "clip", "float", "floor", "int", "interp", "max", "min", "pow", "round"}
)
_FUNCTIONAL = "torch.nn.functional."


class Variation(IntEnum):
    """How many values a size has over the steps."""

    NONE = 0
    FEW = 1
    MANY = 2


class Size(NamedTuple):
    """A size that changes between steps."""

    node: ast.expr
    variation: Variation


@once
def changing_sizes(script: Script) -> list[Size]:
    """Return the sizes of device tensors that change between steps, each once in its function."""
    return list(_changing_sizes(script))


def _changing_sizes(script: Script) -> Iterator[Size]:
    sizes = script.cached(Sizes)
    if not (sizes.counters.any or sizes.counters.keeps_any):
        return
    known: set[tuple[FunctionNode | None, str, int]] = set()
    for node in in_each_step(script):
        if not isinstance(node, (ast.Call, ast.Subscript)):
            continue
        for size in sizes_in(script, node):
            variation = sizes.variation(size)
            if variation and _is_on_the_device(script, node):
                key = (script.function(node), ast.unparse(size), sizes.loop_line(node))
                if key not in known:
                    known.add(key)
                    yield Size(size, variation)
                break


def has_changing_length(script: Script, node: ast.Subscript) -> bool:
    """Return True if the length of the slice `node` of a tensor changes between steps: `x[: self.position]`."""
    if node not in in_each_step(script) or not script.on_accelerator(node.value):
        return False
    return any(map(script.cached(Sizes).variation, sizes_in(script, node)))


def sizes_in(script: Script, node: ast.Call | ast.Subscript) -> Iterator[ast.expr]:
    """Yield the expressions that say how large the tensor `node` is."""
    match node:
        case ast.Call():
            for size in _given(script, as_prepared(script, node)):
                yield from size.elts if isinstance(size, (ast.Tuple, ast.List)) else [size]
        case ast.Subscript(ctx=ast.Load(), slice=index):
            for part in index.elts if isinstance(index, ast.Tuple) else [index]:
                if isinstance(part, ast.Slice) and part.upper is not None:
                    if part.lower is None or isinstance(part.lower, ast.Constant):
                        yield part.upper
                    elif (length := length_of(part)) is not None:
                        yield length


def _given(script: Script, call: ast.Call) -> Iterator[ast.expr]:
    name, dotted = last_name(call.func), script.dotted(call.func) or ""
    by_name = keyword(call, "size") or keyword(call, "steps") or keyword(call, "scale_factor")
    if dotted.startswith(_FUNCTIONAL):
        if name == "interpolate" and by_name is not None:
            yield by_name
        if name in {"pad", "interpolate"}:
            yield from call.args[1:2]
    elif dotted.startswith("torch."):
        if by_name is not None:
            yield by_name
        if name in _SHAPES:
            yield from call.args
        elif name == "full":
            yield from call.args[:1]
        elif name == "arange" and len(call.args) == 1:
            yield from call.args
        elif name in {"randint", "normal", "linspace"}:
            yield from call.args[1 if name == "randint" else 2 :][-1:]
        elif name in {"repeat_interleave", "split", "topk"}:
            yield from call.args[1:2]
        elif name == "narrow":
            yield from call.args[3:4]
        elif name in _JOINING:
            for several in call.args[:1]:
                yield from _numbers_of_elements(script, several)
    elif dotted == f"{RUNTIME}.narrow":
        yield from call.args[3:4]
    elif isinstance(call.func, ast.Attribute) and not dotted:
        if name in _METHODS:
            yield from call.args
        elif name in {"new_full", "repeat_interleave", "split", "topk"}:
            yield from call.args[:1]
        elif name == "unfold":
            yield from call.args[1:2]
        elif name == "narrow":
            yield from call.args[2:3]


def _numbers_of_elements(script: Script, several: ast.expr) -> Iterator[ast.expr]:
    """Yield what says how many elements a list has: `n` of `[x] * n`, `[f(i) for i in range(n)]` and a loop that appends."""
    for node in reach([several], lambda each: sources(script, each)):
        match node:
            case (
                ast.BinOp(left=ast.List(), op=ast.Mult(), right=number)
                | ast.BinOp(left=number, op=ast.Mult(), right=ast.List())
            ):
                yield number
            case ast.ListComp(generators=[generator]) | ast.GeneratorExp(generators=[generator]):
                yield from _turns(generator)
    for added in appended(script, several):
        loops = (around for around in script.ancestors(added) if isinstance(around, ast.For))
        for loop in islice(loops, 1):
            yield from _turns(loop)


def _turns(loop: ast.For | ast.comprehension) -> Sequence[ast.expr]:
    """Return what says how often `loop` runs, if it counts."""
    match loop.iter:
        case ast.Call(func=ast.Name(id="range"), args=bounds):
            return bounds[:2]
    return ()


class Sizes:
    """Which numbers of one script change between its steps."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.counters = script.cached(Counters)
        self._found: dict[ast.AST, Variation] = {}

    def loop_line(self, node: ast.AST) -> int:
        """Return the line of the innermost loop around `node`, or 0."""
        loops = (a for a in self.script.ancestors(node) if isinstance(a, (ast.For, ast.While)))
        return next((loop.lineno for loop in loops), 0)

    def variation(self, node: ast.expr) -> Variation:
        """Return how many values the number `node` has over the steps."""
        if node not in self._found:
            reached = reach([(node, Variation.MANY)], self._parts)
            found = (min(most, self._own(part)) for part, most in reached)
            self._found[node] = max(found)
        return self._found[node]

    def _parts(self, number: tuple[ast.expr, Variation]) -> Iterator[tuple[ast.expr, Variation]]:
        """Yield the numbers that a number is computed from, with the variation that they cause at most."""
        node, most = number
        found = [*sources(self.script, node), *self.counters.parts(node)]
        match node:
            case ast.Subscript(value=values, slice=index) if text_of(index) is None:
                yield index, min(most, self._elements(values))
            case ast.Tuple(elts=sizes) | ast.List(elts=sizes):  # a shape
                found += sizes
            case ast.Call(func=ast.Name(id="len"), args=[owner]):
                found += self._length_of(owner)
            case ast.Call(func=func) if last_name(func) in _COMPUTING:
                given = computed_with(node)
                found += [e for a in given for e in (a.elts if isinstance(a, ast.List) else [a])]
        yield from ((value, most) for value in found)

    def _own(self, node: ast.expr) -> Variation:
        """Return the variation that does not come from another number."""
        if self.counters.is_counter(node):
            return Variation.MANY
        match node:
            case ast.Name():
                loops = [b for b in self.script.reaching(node) if b.how == "for"]
                found = [self._iterated(b.node, b.path[1:]) for b in loops]
                return max(found, default=Variation.NONE)
            case ast.Attribute(value=ast.Name(id="self")) if self.counters.moves(node):
                return Variation.MANY
            case ast.Attribute() if self.counters.is_moved_in_a_turn(node):
                return Variation.MANY
        return Variation.NONE

    def _iterated(self, loop: ast.AST, path: tuple[int, ...]) -> Variation:
        """Return the variation of a variable of a loop around steps, or of one whose iterations are steps."""
        steps = self.counters.loops
        if not isinstance(loop, ast.For):
            return Variation.NONE
        if loop not in steps and not any(loop in self.script.ancestors(step) for step in steps):
            return Variation.NONE
        if counts(self.script, loop.iter, path):
            return Variation.MANY
        return Variation.NONE if path else self._elements(loop.iter, unknown=Variation.NONE)

    def _elements(self, values: ast.expr, unknown: Variation = Variation.MANY) -> Variation:
        """Return the variation of the elements of a list that is written in this file; `unknown` for another."""
        values = self.script.only_value(values) or values
        if isinstance(values, ast.Dict):
            values = ast.List(values.values)
        if not isinstance(values, (ast.List, ast.Tuple)):
            return unknown
        numbers = {
            e.value for e in values.elts if isinstance(e, ast.Constant) and type(e.value) is int
        }
        if len(numbers) < 2 or len(numbers) < len(set(map(ast.unparse, values.elts))):
            return Variation.NONE
        return Variation.FEW if len(numbers) <= FEW else Variation.MANY

    def _length_of(self, owner: ast.expr) -> Sequence[ast.expr]:
        """Return what `__len__` of the class of `owner` returns."""
        is_self = isinstance(owner, ast.Name) and owner.id == "self"
        definition = self.script.class_around(owner) if is_self else self.script.class_of(owner)
        found = definition and self.script.inference.method(definition, "__len__")
        return list(returned(found[0])) if found else []


def _is_on_the_device(script: Script, node: ast.expr) -> bool:
    """Return True if the tensor `node` is on the accelerator, is moved there, or runs through a model."""
    if isinstance(node, ast.Subscript):
        return script.on_accelerator(node.value)
    reached = reach([node], lambda each: _computed_with(script, each))
    return any(_is_accelerated(script, each) or _is_run(script, each) for each in reached)


def _is_run(script: Script, node: ast.expr) -> bool:
    """Return True if a call that runs a model receives `node`."""
    call = call_with(script, node)
    return call is not None and FORWARD in script.training.call_effects(call)


def _computed_with(script: Script, node: ast.expr) -> list[ast.expr]:
    """Return the expressions that `node` is a part of, or that have its value."""
    around = script.parent(node)
    if isinstance(around, ast.stmt):
        found = uses(script, node)
        return [use for use in found if not isinstance(script.parent(use), ast.Subscript)]
    parts = (a for a in script.ancestors(node) if isinstance(a, (ast.expr, ast.stmt)))
    return [part for part in islice(parts, 1) if isinstance(part, ast.expr)]


def _is_accelerated(script: Script, node: ast.expr) -> bool:
    return script.value(node).kinds >= {TENSOR, ACCEL}
