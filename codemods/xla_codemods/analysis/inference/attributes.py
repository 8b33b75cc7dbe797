"""The attributes that a method gives to its object."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ..scopes import Binding, FunctionNode
from ..syntax import statements, walk_body


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
