"""Views that are written to: `buffer[i : i + n].copy_(x)` reaches the buffer, and a copy of the part would not."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from ....flow.closure import reach
from ...nodes import walk
from ...syntax import name_of, parameter_for, unparsed

if TYPE_CHECKING:
    from ...scopes import FunctionNode
    from ...script import Script

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
    text, home = unparsed(target), script.function(target)
    is_name = isinstance(target, ast.Name)
    if not isinstance(target, (ast.Name, ast.Attribute)):
        return []
    nodes = (node for node, _ in script.index.of(type(target)) if node is not target)
    same = (node for node in nodes if unparsed(node) == text)
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
            return _is_written_by_a_call(script, node, around)
    return False


def _is_written_by_a_call(script: Script, node: ast.expr, parent: ast.Call | ast.keyword) -> bool:
    """`nn.init.normal_(part)`, `fill(part)`, where the function of the program writes to what it is given."""
    call = script.parent(parent) if isinstance(parent, ast.keyword) else parent
    if not isinstance(call, ast.Call):
        return False
    func = call.func
    name = name_of(func)
    is_method = isinstance(func, ast.Attribute) and script.dotted(func) is None
    if call.args[:1] == [node] and _writes(name) and not is_method:
        return True
    function = script.value(func).definition
    if function is None and script.project is not None:
        function = script.project.function(script.dotted(func) or "")
    if not isinstance(function, ast.FunctionDef):
        return False
    taken = parameter_for(node, function, call, skip_self=is_method)
    return taken is not None and _writes_to(function, taken)


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
