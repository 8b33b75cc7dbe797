"""Slices with moving bounds, views that are written to, and batches that are cut where their longest sample ends."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator

from ....flow.calls import call_with, receives
from ....flow.closure import reach
from ...inference.values import ACCEL, BATCH, NUMBER, TENSOR
from ...nodes import walk
from ...parsed_file import ParsedFile
from ...scopes import FunctionNode
from ...script import Script
from ...syntax import name_of, parameter_for
from ..collating import collating
from ..turns import in_steps_and_evaluations
from .sums import is_sum

_LONGEST = frozenset({"max", "amax"})
_CONVERTING = frozenset({"int", "float", "min", "max"})
_READING = frozenset({"item", "tolist", "cpu", "numpy", "long", "int", "detach"})


def cuts(script: Script) -> Iterator[ast.expr]:
    """Yield slices that cut a batch to its longest sample, in each step or in the collate function."""
    index = script.index
    nodes: list[ast.Subscript | ast.Call] = [node for node, _ in index.of(ast.Subscript)]
    nodes += (call for call, _ in index.calls_of("narrow"))
    edges = {n: e for n in nodes for e in _lengths(script, n) if _is_longest(script, e)}
    if not edges:
        return
    bodies = {n for f in collating(script) for n in walk(f)}
    turn = in_steps_and_evaluations(script)
    found: dict[tuple[ast.AST | None, str], ast.expr] = {}
    for node, edge in edges.items():
        if node in turn or node in bodies:
            found.setdefault((script.function(node), ast.unparse(edge)), node)
    yield from found.values()


def is_cut(script: Script, node: ast.Subscript) -> bool:
    """True if the slice `node` takes as much as the longest sample of its batch has."""
    return any(_is_longest(script, edge) for edge in _lengths(script, node))


def _lengths(script: Script, node: ast.Subscript | ast.Call) -> Iterator[ast.expr]:
    """The ends of slices, and what `narrow` takes for a length."""
    if isinstance(node, ast.Subscript):
        parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        slices = [part for part in parts if isinstance(part, ast.Slice)]
        if slices and isinstance(node.ctx, ast.Load) and _is_of_a_batch(script, node.value):
            yield from (e for s in slices for e in (s.lower, s.upper) if e is not None)
    elif isinstance(node.func, ast.Attribute) and node.func.attr == "narrow" and node.args:
        yield node.args[-1]


def _is_longest(script: Script, node: ast.expr) -> bool:
    """`int(mask.sum(1).max())`, `max(lengths)`, `lengths.max().item()`, of a batch."""
    reached = reach([node], lambda each: _computed_from(script, each))
    return any(_is_of_a_batch(script, of) for each in reached for of in _maximum_of(script, each))


def _computed_from(script: Script, node: ast.expr) -> list[ast.expr]:
    match node:
        case ast.Call(func=ast.Name(id=name), args=args) if name in _CONVERTING:
            return args
        case ast.Call(func=ast.Attribute(value=owner, attr=name)) if name in _READING:
            return [owner]
        case ast.BinOp(op=ast.Add() | ast.Sub(), left=left, right=right):
            return [left, right]
        case ast.NamedExpr(value=inner) | ast.UnaryOp(operand=inner):
            return [inner]
        case ast.Name():
            return _values(script, node)
    return []


def _maximum_of(script: Script, node: ast.expr) -> list[ast.expr]:
    """Return what the largest element is taken of: `max(lengths)`, `lengths.max()` and `torch.max(lengths)`."""
    match node:
        case ast.Call(func=ast.Name(id="max"), args=[lengths]):
            return [lengths]
        case ast.Call(func=ast.Attribute(value=owner, attr=name), args=args, keywords=[]):
            is_function = script.dotted(node.func) in {"torch.max", "torch.amax"}
            if name in _LONGEST and len(args) == is_function:
                return args or [owner]
    return []


def _is_of_a_batch(script: Script, node: ast.expr) -> bool:
    """True if `node` is made of what a loop or a loader gives, or a function is given, and is no number."""

    def is_batch(each: ast.expr) -> bool:
        value = script.value(each)
        return bool(value.kinds & {TENSOR, BATCH}) and not value.has(NUMBER)

    def names(each: ast.expr) -> list[ast.Name]:
        parts = walk(each) if not script.value(each).kinds & {NUMBER, TENSOR, BATCH} else ()
        return [n for n in parts if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)]

    reached = reach([node], lambda each: [v for n in names(each) for v in _values(script, n)])
    return any(is_batch(each) or any(_is_given(script, n) for n in names(each)) for each in reached)


def _is_given(script: Script, name: ast.Name) -> bool:
    is_other = name.id not in {"self", "cls", "model", "args"}
    hows = {binding.how for binding in script.bindings(name)}
    return "for" in hows or (is_other and "parameter" in hows)


def _values(script: Script, name: ast.Name) -> list[ast.expr]:
    bound = (b for b in script.reaching(name) if b.how == "assign")
    return [binding.value for binding in bound if binding.value is not None]


def is_on_device(script: ParsedFile, node: ast.expr, index: ast.expr | None = None) -> bool:
    """True if `node` is a tensor of the device: a batch that takes several indices at once is one, too."""
    value = script.value(node)
    if not (value.has(TENSOR) and value.has(ACCEL)):
        return False
    return not value.has(BATCH) or isinstance(index, ast.Tuple)


def moving_part(
    index: ast.expr, moves: Callable[[ast.expr], bool]
) -> tuple[int, ast.expr, bool] | None:
    """The first part of `index` that moves, with its dimension, and whether all of every other dimension is taken."""
    parts = index.elts if isinstance(index, ast.Tuple) else [index]
    moving = [(dim, part) for dim, part in enumerate(parts) if _moves(part, moves)]
    if not moving:
        return None
    dim, part = moving[0]
    alone = len(moving) == 1 and all(is_whole(p) for k, p in enumerate(parts) if k != dim)
    return dim, part, alone


def has_moving_bounds(part: ast.expr, moves: Callable[[ast.expr], bool]) -> bool:
    """Return True for `x1:x2` of a random box, whose length may change: nothing shows that it is constant."""
    if not isinstance(part, ast.Slice) or part.lower is None or part.upper is None:
        return False
    return length_of(part) is None and moves(part.lower) and moves(part.upper)


def _moves(part: ast.expr, moves: Callable[[ast.expr], bool]) -> bool:
    if isinstance(part, ast.Slice):
        return any(edge is not None and moves(edge) for edge in (part.lower, part.upper))
    return moves(part)


def is_whole(part: ast.expr) -> bool:
    """`:`."""
    return isinstance(part, ast.Slice) and not (part.lower or part.upper or part.step)


def length_of(part: ast.Slice) -> ast.expr | None:
    """The length of `i : i + n`, where both ends say so."""
    if part.step is not None or part.lower is None or part.upper is None:
        return None
    return is_sum(part.upper, part.lower)


def put_text(
    script: Script, place: ast.Subscript, dim: int, part: ast.expr, value: ast.expr
) -> tuple[str, tuple[ast.expr, ...]] | None:
    """Return a call of `xla.put` that writes `value` to `place`, whose index moves in `part`, and its holes."""
    put = f"{script.xla}.put({{0}}, {dim}, {{1}}, {{2}}"
    if not isinstance(part, ast.Slice):
        return put + ")", (place.value, part, value)
    length = length_of(part)
    if length is None or part.lower is None:
        return None
    return put + ", length={3})", (place.value, part.lower, value, length)


# What gives the same memory again.
_ATTRIBUTES = frozenset({"T", "H", "mT", "mH", "data", "real", "imag"})
_METHODS = frozenset(
    "as_strided chunk contiguous detach diagonal expand flatten movedim narrow numpy permute ravel reshape select split "
    "squeeze swapaxes t transpose unbind unflatten unfold unsqueeze view view_as".split()
)
_NO_WRITES = frozenset({"requires_grad_", "retain_grad", "register_hook"})


def is_written_to(script: Script, node: ast.expr) -> bool:
    """True if something writes in place to `node`, a part of a tensor, or to a name for it."""
    views = reach([node], lambda view: _views(script, view))
    return any(_is_written(script, view) for view in views)


def _views(script: Script, node: ast.expr) -> list[ast.expr]:
    """Return the expressions that have the memory of `node`."""
    parent = script.parent(node)
    match parent:
        case ast.Attribute(attr=name) if name in _ATTRIBUTES:
            return [parent]
        case ast.Attribute(attr=name) if name in _METHODS:
            call = script.parent(parent)
            return [call] if isinstance(call, ast.Call) and call.func is parent else []
        case ast.Subscript(value=owner, ctx=ast.Load()) if owner is node:
            return [parent]
        case ast.NamedExpr(target=target):
            return [parent, *_same(script, target)]
    around = script.parent(parent) if isinstance(parent, (ast.Tuple, ast.List)) else parent
    if not isinstance(around, ast.Assign):
        return []
    targets = around.targets
    if parent is not around:  # `a, b = x[:2], x[2:]`
        at = parent.elts.index(node)  # type: ignore[union-attr]
        targets = [each for t in targets for each in getattr(t, "elts", ())[at : at + 1]]
    return [use for target in targets for use in _same(script, target)]


def _same(script: Script, target: ast.expr) -> list[ast.expr]:
    """Return the other uses of the name or attribute `target`, in its function if it is a name."""
    home, is_name = script.function(target), isinstance(target, ast.Name)
    if not isinstance(target, (ast.Name, ast.Attribute)):
        return []
    same = (node for node in script.index.spelled(target) if node is not target)
    return [node for node in same if not is_name or script.function(node) is home]


def _writes(name: str) -> bool:
    return name.endswith("_") and not name.startswith("__") and name not in _NO_WRITES


def _is_written(script: Script, node: ast.expr) -> bool:
    """Return True if `node` itself is written to in place."""
    parent = script.parent(node)
    around = script.parent(parent) if isinstance(parent, (ast.Tuple, ast.List)) else parent
    match around:
        case ast.keyword(arg="out"):
            return True
        case ast.Attribute(attr=name):
            return _writes(name) and isinstance(script.parent(around), ast.Call)
        case ast.Subscript(value=owner, ctx=ast.Store() | ast.Del()):
            return owner is node
        case ast.AugAssign(target=target):
            return target is node
        case ast.Call() | ast.keyword() if around is parent:
            return _is_written_by_a_call(script, node)
    return False


def _is_written_by_a_call(script: Script, node: ast.expr) -> bool:
    """`nn.init.normal_(part)`, `fill(part)`, where the function of the program writes to what it is given."""
    call = call_with(script, node)
    if call is None:
        return False
    func = call.func
    name = name_of(func)
    is_method = isinstance(func, ast.Attribute) and script.dotted(func) is None
    if call.args[:1] == [node] and _writes(name) and not is_method:
        return True
    received = receives(script, call, node)
    function = script.project.function(script.dotted(func) or "")
    if received is None and function is not None:
        taken = parameter_for(node, function, call, skip_self=is_method)
        received = (function, taken) if taken is not None else None
    return received is not None and _writes_to(*received)


def _writes_to(function: FunctionNode, name: str) -> bool:
    """True if `function` writes in place to its parameter `name`."""
    for node in walk(function):
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id=owner), attr=attr)):
                if owner == name and _writes(attr):
                    return True
            case ast.AugAssign(target=ast.Name(id=owner)):
                if owner == name:
                    return True
            case ast.Subscript(value=ast.Name(id=owner), ctx=ast.Store()):
                if owner == name:
                    return True
    return False
