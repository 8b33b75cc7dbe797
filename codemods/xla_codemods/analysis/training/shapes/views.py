"""Views that are written to: `buffer[i : i + n].copy_(x)` reaches the buffer, and a copy of the part would not."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from ...nodes import walk
from ...syntax import name_of, parameter_for

if TYPE_CHECKING:
    from ...scopes import FunctionNode
    from ...script import Script

_DEEPEST = 3  # names, and functions of the program, that a view goes through
# What gives the same memory again.
_ATTRIBUTES = frozenset({"T", "H", "mT", "mH", "data", "real", "imag"})
_METHODS = frozenset(
    "as_strided chunk contiguous detach diagonal expand flatten movedim narrow numpy permute ravel reshape select split "
    "squeeze swapaxes t transpose unbind unflatten unfold unsqueeze view view_as".split()
)
_NO_WRITES = frozenset({"requires_grad_", "retain_grad", "register_hook"})


def is_written_to(script: Script, node: ast.expr, depth: int = _DEEPEST) -> bool:
    """True if something writes in place to `node`, a part of a tensor, or to a name for it."""
    parent = script.parent(node)
    match parent:
        case ast.Attribute(attr=name) if name in _ATTRIBUTES:
            return is_written_to(script, parent, depth)
        case ast.Attribute(attr=name):
            call = script.parent(parent)
            if not (isinstance(call, ast.Call) and call.func is parent):
                return False
            if name in _METHODS:
                return is_written_to(script, call, depth)
            return _writes(name)
        case ast.Subscript(value=owner) if owner is node:
            return isinstance(parent.ctx, (ast.Store, ast.Del)) or is_written_to(
                script, parent, depth
            )
        case ast.keyword(arg="out"):
            return True
        case ast.Call() | ast.keyword():
            return _is_written_by_a_call(script, node, parent, depth)
        case ast.Tuple() | ast.List():
            around = script.parent(parent)
            if isinstance(around, ast.keyword) and around.arg == "out":
                return True
            return isinstance(around, ast.Assign) and _is_bound_and_written(
                script, node, around, depth
            )
        case ast.Assign():
            return _is_bound_and_written(script, node, parent, depth)
        case ast.NamedExpr(target=target):
            return is_written_to(script, parent, depth) or _name_is_written(script, target, depth)
    return False


def _writes(name: str) -> bool:
    return name.endswith("_") and not name.startswith("__") and name not in _NO_WRITES


def _is_written_by_a_call(
    script: Script, node: ast.expr, parent: ast.Call | ast.keyword, depth: int
) -> bool:
    """`nn.init.normal_(part)`, `fill(part)`, where the function of the program writes to what it is given."""
    call = script.parent(parent) if isinstance(parent, ast.keyword) else parent
    if not isinstance(call, ast.Call) or depth == 0:
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


def _is_bound_and_written(script: Script, node: ast.expr, assign: ast.Assign, depth: int) -> bool:
    """`part = buffer[i : i + n]`, and `part += 1`."""
    for target in assign.targets:
        value = assign.value
        if isinstance(target, (ast.Tuple, ast.List)) and isinstance(value, (ast.Tuple, ast.List)):
            pairs = zip(target.elts, value.elts, strict=False)
            names = [name for name, given in pairs if given is node]
        else:
            names = [target] if value is node else []
        if any(_name_is_written(script, name, depth) for name in names):
            return True
    return False


def _name_is_written(script: Script, target: ast.expr, depth: int) -> bool:
    if depth == 0 or not isinstance(target, (ast.Name, ast.Attribute)):
        return False
    text = ast.unparse(target)
    home = script.function(target)
    same = (
        node
        for node, _ in script.index.of(type(target))
        if ast.unparse(node) == text
        and (isinstance(target, ast.Attribute) or script.function(node) is home)
    )
    for use in same:
        if isinstance(use.ctx, ast.Load):
            if is_written_to(script, use, depth - 1):
                return True
        elif isinstance(script.parent(use), ast.AugAssign):
            return True
    return False
