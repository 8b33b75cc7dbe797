"""The attributes that a method gives to its object, and objects that are moved in place."""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Iterator

from ..scopes import Binding, FunctionNode
from ..syntax import statements, unparsed, walk_body
from .values import ACCEL, HOST, TENSOR, Value


def attributes_bound(
    method: FunctionNode, this: str, has_buffers: bool
) -> Iterator[tuple[str, Binding]]:
    """`self.<name> = value` in `method`, also in tuples and `with ... as self.<name>`; and its buffers."""
    # A buffer is registered by an expression, and most classes have none.
    walked = walk_body if has_buffers else statements
    for node in walked(method.body):
        if isinstance(node, ast.Assign):
            for target in node.targets:
                yield from _targets(target, this, node, node.value, ())
        elif isinstance(node, ast.AnnAssign):
            yield from _targets(node.target, this, node, node.value, ())
        elif isinstance(node, (ast.With, ast.AsyncWith)):
            for item in node.items:
                if item.optional_vars is not None:
                    yield from _targets(item.optional_vars, this, node, item.context_expr, ())
        elif isinstance(node, ast.Call):
            match node:
                case ast.Call(
                    func=ast.Attribute(value=ast.Name(id=name), attr="register_buffer"),
                    args=[ast.Constant(value=str(buffer)), tensor, *_],
                ) if name == this:
                    yield buffer, Binding("buffer", node, tensor)


def _targets(
    target: ast.expr, this: str, node: ast.AST, value: ast.expr | None, path: tuple[int, ...]
) -> Iterator[tuple[str, Binding]]:
    match target:
        case ast.Attribute(value=ast.Name(id=name), attr=attribute) if name == this:
            yield attribute, Binding("assign", node, value, path)
        case ast.Tuple(elts=elements) | ast.List(elts=elements):
            for index, element in enumerate(elements):
                yield from _targets(element, this, node, value, (*path, index))


def is_moved(node: ast.expr, name: str, by: Collection[str] = ("cuda", "to")) -> bool:
    """True if `node` is `name.cuda()` or `name.to(...)`; `self.count` is the name of an attribute."""
    match node:
        case ast.Call(func=ast.Attribute(value=ast.Name() | ast.Attribute() as moved, attr=method)):
            return method in by and unparsed(moved) == name
    return False


def settled(name: str, bound: list[tuple[Binding, Value]]) -> list[Value]:
    """The values that `name` may have, without the one on the host that another of its bindings moves away."""
    if len(bound) > 1 and any(_is_placed(v) and _moves(b, name) for b, v in bound):
        return [v for _, v in bound if not (v.has(TENSOR) and v.has(HOST))]
    return [v for _, v in bound]


def settled_attribute(
    name: str, bound: list[tuple[Binding, Value]], is_run: Callable[[Binding], bool]
) -> list[Value]:
    """The same for an attribute, if the program runs a method that moves it, and no method moves it back to the host."""
    moves = [(b, v) for b, v in bound if _moves(b, name, ("cpu", "cuda", "to"))]
    is_there = all(_is_placed(v) for _, v in moves) and any(is_run(b) for b, _ in moves)
    if is_there:
        return settled(name, bound)
    values = [v for _, v in bound]
    if moves and any(v.has(HOST) for v in values):  # it may be in either place
        return [v._replace(kinds=v.kinds - {ACCEL, HOST}) for v in values]
    return values


def _is_placed(value: Value) -> bool:
    return value.has(TENSOR) and value.has(ACCEL)


def _moves(binding: Binding, name: str, by: Collection[str] = ("cuda", "to")) -> bool:
    value = binding.part
    return binding.how == "assign" and value is not None and is_moved(value, name, by)
