"""Values of unknown type that are surely moved to the accelerator: `x.to(device)`, followed to their uses."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ....flow.calls import calls_by_name, passed
from ...bindings import ITERATED, Binding
from ...flow import reaching
from ...inference.values import ACCEL, DEVICE, TENSOR
from ...scopes import Scope

if TYPE_CHECKING:
    from ...parsed_file import ParsedFile

_DEEPEST = 8  # names, attributes and calls from a use to the move
_KEEPING = frozenset(
    "bfloat16 bool clone contiguous detach double flatten float half int long reshape requires_grad_ squeeze t transpose "
    "unsqueeze view permute".split()
)


def is_moved(script: ParsedFile, node: ast.expr, depth: int = _DEEPEST) -> bool:
    """True if `node` is a tensor on the accelerator, or something that was moved there."""
    value = script.value(node)
    if value.has(TENSOR):
        return value.has(ACCEL)
    if depth == 0 or value.kinds:
        return False
    match node:
        case ast.Call(func=ast.Attribute(value=owner, attr=name)):
            if name == "cuda":
                return True
            if name == "to":
                given = [*node.args, *(k.value for k in node.keywords)]
                values = [script.value(g) for g in given]
                return any(v.has(DEVICE) and v.has(ACCEL) for v in values)
            return name in _KEEPING and is_moved(script, owner, depth - 1)
        case ast.Subscript(value=owner, slice=ast.Constant(value=int())):
            return are_moved(script, owner, depth - 1)
    return any(_gives(script, b, home, depth) for b, home in _bound(script, node))


def _gives(script: ParsedFile, binding: Binding, home: Scope, depth: int) -> bool:
    """True if what `binding` binds is moved."""
    if binding.how == "parameter":
        given = _passed(script, binding, home)
        return bool(given) and all(is_moved(script, g, depth - 1) for g in given)
    if binding.value is None or binding.how not in {"assign", "for"}:
        return False
    if binding.part is not None:
        return is_moved(script, binding.part, depth - 1)
    is_element = binding.path == (ITERATED,) or (binding.how == "assign" and len(binding.path) == 1)
    return is_element and are_moved(script, binding.value, depth - 1)


def are_moved(script: ParsedFile, node: ast.expr, depth: int = _DEEPEST) -> bool:
    """True if `node` holds nothing but what is moved."""
    if depth <= 0:
        return False
    match node:
        case ast.Starred(value=inner):
            return are_moved(script, inner, depth)
        case ast.Tuple(elts=parts) | ast.List(elts=parts):
            return bool(parts) and all(is_moved(script, part, depth) for part in parts)
        case ast.ListComp(elt=inner) | ast.GeneratorExp(elt=inner):
            return is_moved(script, inner, depth)
        case ast.Call(func=ast.Name(id="list" | "tuple"), args=[inner]):
            return are_moved(script, inner, depth)
    for binding, home in _bound(script, node):
        match binding:
            case Binding(how="assign", part=ast.expr() as value):
                if are_moved(script, value, depth - 1):
                    return True
            case Binding(how="parameter"):
                given = _passed(script, binding, home)
                if given and all(
                    are_moved(script, g, depth - 1)
                    if isinstance(g, ast.Starred)
                    else is_moved(script, g, depth - 1)
                    for g in given
                ):
                    return True
    return False


def _bound(script: ParsedFile, node: ast.expr) -> Iterator[tuple[Binding, Scope]]:
    """What binds the name `node`, or the attribute of an object by its class."""
    scope = script.index.scope(node)
    match node:
        case ast.Name(id=name):
            found = scope.find(name)
            if found is not None:
                for binding in reaching(found[1], node, found[0], script.parents):
                    yield binding, found[0]
        case ast.Attribute(value=ast.Name(id="self"), attr=name):
            owner = script.class_around(node)
            for assign, home in script.index.of(ast.Assign):
                if owner is None or script.class_around(assign) is not owner:
                    continue
                for target in assign.targets:
                    if isinstance(target, ast.Tuple):
                        for at, part in enumerate(target.elts):
                            if _is_of_self(part, name):
                                yield Binding("assign", assign, assign.value, (at,)), home
                    elif _is_of_self(target, name):
                        yield Binding("assign", assign, assign.value), home


def _passed(script: ParsedFile, binding: Binding, home: Scope) -> list[ast.expr]:
    """What the file's calls of a function, or of its class, give for one of its parameters."""
    function = home.node
    if not isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return []
    assert isinstance(binding.node, ast.arg)
    if binding.node is function.args.vararg:
        skipped = len(function.args.args) - isinstance(script.parent(function), ast.ClassDef)
        return [a for call in calls_by_name(script, function) for a in call.args[skipped:]]
    given = passed(script, function, binding.node.arg)
    return [a for a in given if a is not None] if all(given) else []


def _is_of_self(node: ast.expr, name: str) -> bool:
    return (
        isinstance(node, ast.Attribute)
        and node.attr == name
        and isinstance(node.value, ast.Name)
        and node.value.id == "self"
    )
