"""Sizes of device tensors that are another in each step: of a counter, a schedule, a list of stages or a warm-up."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

from ....flow.calls import argument, callers
from ...devices.specs import last_name
from ...inference.values import ACCEL, TENSOR
from ...syntax import keyword, returned
from ..training import FORWARD
from ..turns import in_each_step
from .counters import FEW, Counters, counts

if TYPE_CHECKING:
    from ...scopes import Binding, FunctionNode
    from ...script import Script

_CALLERS = 3  # functions that a tensor is followed out of
_SHAPES = frozenset({"empty", "ones", "rand", "randn", "zeros", "eye", "randperm"})
_METHODS = frozenset(
    {"expand", "new_empty", "new_ones", "new_zeros", "repeat", "reshape", "tile", "view"}
)
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


def changing_sizes(script: Script) -> Iterator[Size]:
    """Yield the sizes of device tensors that change between steps, each once in its function."""
    sizes = script.cached(Sizes)
    if not sizes.counters.any:
        return
    known: set[tuple[FunctionNode | None, str, int]] = set()
    for node in in_each_step(script):
        for size in _sizes_in(script, node):
            variation = sizes.variation(size)
            if (
                variation
                and isinstance(node, ast.expr)
                and _is_on_the_device(script, node, _CALLERS)
            ):
                key = (script.function(node), ast.unparse(size), sizes.loop_line(node))
                if key not in known:
                    known.add(key)
                    yield Size(size, variation)
                break


def _sizes_in(script: Script, node: ast.AST) -> Iterator[ast.expr]:
    """Yield the expressions that say how large the tensor `node` is."""
    match node:
        case ast.Call():
            for size in _given(script, node):
                yield from size.elts if isinstance(size, (ast.Tuple, ast.List)) else [size]
        case ast.Subscript(ctx=ast.Load(), slice=index):
            for part in index.elts if isinstance(index, ast.Tuple) else [index]:
                if isinstance(part, ast.Slice) and part.upper is not None:
                    if part.lower is None or isinstance(part.lower, ast.Constant):
                        yield part.upper


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
        elif name == "topk":
            yield from call.args[1:2]
    elif isinstance(call.func, ast.Attribute) and not dotted:
        if name in _METHODS:
            yield from call.args
        elif name in {"new_full", "topk"}:
            yield from call.args[:1]
        elif name == "narrow":
            yield from call.args[2:3]


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
        if isinstance(node, ast.Constant):
            return Variation.NONE
        if node not in self._found:
            self._found[node] = Variation.NONE  # recursion ends here
            found = self._computed(node)
            self._found[node] = Variation.MANY if self.counters.changes(node) else found
        return self._found[node]

    def _most(self, nodes: list[ast.expr]) -> Variation:
        return max(map(self.variation, nodes), default=Variation.NONE)

    def _computed(self, node: ast.expr) -> Variation:
        match node:
            case ast.Name():
                return max(map(self._bound, self.script.reaching(node)), default=Variation.NONE)
            case ast.BinOp(op=ast.Mod(), right=ast.Constant(value=int(few))) if few <= FEW:
                return Variation.NONE
            case ast.BinOp(left=left, right=right):
                return self._most([left, right])
            case ast.UnaryOp(operand=operand):
                return self.variation(operand)
            case ast.IfExp(body=body, orelse=orelse):
                return self._most([body, orelse])
            case ast.Subscript(value=values, slice=index):
                if not self.variation(index):
                    return Variation.NONE
                return self._elements(values)
            case ast.Attribute(value=ast.Name(id="self")):
                return Variation.MANY if self.counters.moves(node) else Variation.NONE
            case ast.Call():
                return self._returned(node)
        return Variation.NONE

    def _bound(self, binding: Binding) -> Variation:
        if binding.how == "for" and isinstance(binding.node, ast.For):
            return self._iterated(binding.node, binding.path[1:])
        if binding.how == "parameter" and isinstance(binding.node, ast.arg):
            return self._handed(binding.node)
        if binding.whole is not None:
            return self.variation(binding.whole)
        return Variation.NONE

    def _iterated(self, loop: ast.For, path: tuple[int, ...]) -> Variation:
        """Return the variation of a variable of a loop around steps, or of one whose iterations are steps."""
        steps = self.counters.loops
        if loop not in steps and not any(loop in self.script.ancestors(step) for step in steps):
            return Variation.NONE
        if counts(loop.iter, path):
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

    def _handed(self, parameter: ast.arg) -> Variation:
        """Return the variation of what this file's calls pass for `parameter`."""
        function = self.script.function(parameter)
        if function is None or self.script.is_in_a_module(function):
            return Variation.NONE
        calls = callers(self.script, function)
        given = (argument(self.script, parameter.arg, function, call) for call in calls)
        return self._most([value for value in given if value is not None])

    def _returned(self, call: ast.Call) -> Variation:
        """Return the variation of what a function of this file returns, or one that computes with its arguments."""
        function = self.script.function_of(call.func)
        if isinstance(function, ast.FunctionDef):
            return self._most(list(returned(function)))
        if last_name(call.func) in _COMPUTING:
            given = [e for a in call.args for e in (a.elts if isinstance(a, ast.List) else [a])]
            return self._most(given)
        return Variation.NONE


def _is_on_the_device(script: Script, node: ast.expr, callers: int) -> bool:
    """Return True if the tensor `node` is on the accelerator, is moved there, or runs through a model."""
    inner: ast.AST = node
    if isinstance(node, ast.Subscript):
        return script.on_accelerator(node.value)
    for around in script.ancestors(node):
        if isinstance(inner, ast.expr) and _is_accelerated(script, inner):
            return True
        match around:
            case ast.Call() if inner is not around.func:
                if FORWARD in script.training.call_effects(around):
                    return True
            case ast.Return() if callers and (function := script.function(node)) is not None:
                calls = script.index.calls_of(function.name)
                return any(_is_on_the_device(script, call, callers - 1) for call, _ in calls)
            case ast.Assign(targets=[ast.Name(id=name)]):
                return any(
                    use.id == name
                    and isinstance(use.ctx, ast.Load)
                    and script.function(use) is script.function(node)
                    and script.statement(use) is not around
                    and any(
                        b.node is around or b.value is around.value for b in script.reaching(use)
                    )
                    and _is_used_on_the_device(script, use, callers)
                    for use, _ in script.index.of(ast.Name)
                )
            case ast.stmt():
                return False
        inner = around
    return False


def _is_used_on_the_device(script: Script, use: ast.Name, callers: int) -> bool:
    return not isinstance(script.parent(use), ast.Subscript) and _is_on_the_device(
        script, use, callers
    )


def _is_accelerated(script: Script, node: ast.expr) -> bool:
    return script.value(node).kinds >= {TENSOR, ACCEL}
