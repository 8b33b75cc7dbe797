"""Arrays of the host that are filled in every step: `curve[step] = loss.item()`.

`xla.fill` sets the element later, and `xla.arrived(curve)` resolves the array. Until then, no other
name may give access to the array.
"""

from __future__ import annotations

import ast
from itertools import takewhile

from ...inference.values import TENSOR
from ...nodes import CALLABLES, LOOPS
from ...script import Script
from ...syntax import keyword
from .deferral import Deferral
from .functions import is_tried
from .holders import is_shared, key_of, reads_of, stored_in

_MAKES = frozenset(
    f"{name}{like}" for name in ("empty", "full", "ones", "zeros") for like in ("", "_like")
)
_LIBRARIES = frozenset({"numpy", "torch"})
_FACTS = frozenset({"dtype", "ndim", "shape", "size"})
# What gives another name to the same elements.
_VIEWS = frozenset("T flat numpy ravel reshape squeeze transpose view".split())
_SIMPLE = (
    *(ast.Name, ast.Constant, ast.BinOp, ast.Attribute, ast.Tuple),
    *(ast.expr_context, ast.operator),
)


def fill(deferral: Deferral, target: ast.Subscript) -> None:
    """Set the element `target` of a local array later; the read stays if others may see the array."""
    script, array, statement = deferral.script, target.value, deferral.script.parent(target)
    name = ast.unparse(array)
    loop = _outermost(script, target)
    if not isinstance(array, ast.Name) or not isinstance(statement, ast.Assign):
        kind = "tensor" if script.value(array).has(TENSOR) else "array"
        deferral.refuse(f"it is stored in the {kind} `{name}`")
        return
    if is_tried(script, target):
        deferral.refuse("an exception of the assignment is caught")
    if is_shared(script, array) or loop is None:
        deferral.refuse(f"the array `{name}` is not filled in a loop of one function")
        return
    if not all(isinstance(node, _SIMPLE) for node in ast.walk(target.slice)):
        deferral.refuse(f"`{ast.unparse(target)}` is not one element")
    if not all(_is_made(script, made) for made in stored_in(script, array)):
        deferral.refuse(f"`{name}` may share its memory with another array")
    deferral.shared.add(key_of(script, array))
    deferral.filled.add(statement)
    for load in reads_of(script, array, script.bindings(array)):
        element = script.parent(load)
        other = script.parent(element) if element is not None else None
        if load in deferral.always and isinstance(other, ast.Assign) and element in other.targets:
            deferral.filled.add(other)
        elif not _is_a_fact(script, load):
            if load in deferral.always:
                deferral.refuse(f"`{name}` contains it and is needed in every step")
            is_after = load.lineno > (loop.end_lineno or 0)
            if load.lineno < loop.lineno or not (is_after or _is_used_up(script, load)):
                deferral.refuse(f"the array `{name}` has other names")
            deferral.arrived.add(load)


def index_of(script: Script, target: ast.Subscript) -> str:
    """Return the index of an element as an argument."""
    text = script.segment(target.slice)
    return f"({text})" if isinstance(target.slice, ast.Tuple) and text[:1] != "(" else text


def _is_made(script: Script, made: ast.expr | None) -> bool:
    """Return True for `np.zeros(n)` and `torch.zeros(n)` on the host."""
    if not isinstance(made, ast.Call):
        return False
    library, _, name = (script.dotted(made.func) or "").partition(".")
    is_moved = keyword(made, "device") or "set_default_device" in script.source.text
    return library in _LIBRARIES and name in _MAKES and not (library == "torch" and is_moved)


def _outermost(script: Script, node: ast.AST) -> ast.stmt | None:
    """Return the outermost loop of the function around `node`."""
    inside = takewhile(lambda a: not isinstance(a, CALLABLES), script.ancestors(node))
    return next(reversed([a for a in inside if isinstance(a, LOOPS)]), None)


def _is_a_fact(script: Script, load: ast.expr) -> bool:
    """Return True for `len(curve)` and `curve.shape`."""
    match script.parent(load):
        case ast.Attribute(attr=name):
            return name in _FACTS
        case ast.Call(func=ast.Name(id="len")):
            return True
    return False


def _is_used_up(script: Script, node: ast.expr) -> bool:
    """Return True if the array is only read at once: `curve[:n].mean()`, `print(curve)`."""
    parent = script.parent(node)
    match parent:
        case ast.Attribute(attr=name):
            call = script.parent(parent)
            return name not in _VIEWS and isinstance(call, ast.Call) and call.func is parent
        case ast.Subscript():
            if isinstance(parent.ctx, ast.Store) and parent.value is node:
                return True
            return parent.slice is node or _is_used_up(script, parent)
        case ast.Call() | ast.keyword() | ast.FormattedValue() | ast.BinOp() | ast.Compare():
            return True
    return False
