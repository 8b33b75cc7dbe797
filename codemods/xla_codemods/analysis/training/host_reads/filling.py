"""Arrays of the host whose elements are read in every step: `curve[step] = loss.item()`, which is filled in later.

`xla.arrived(curve)` then resolves the array. No other name may give access to the array before that.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...inference.unpacking import part
from ...inference.values import TENSOR
from ...syntax import keyword
from .blocked import Blocked
from .readers.cells import (
    Owner,
    class_of,
    home,
    is_owner,
    stores_and_loads,
    uses_in_other_modules,
)

if TYPE_CHECKING:
    from ...script import Script
    from .deferral import Deferral

_MAKES = frozenset(
    f"{name}{like}" for name in ("empty", "full", "ones", "zeros") for like in ("", "_like")
)
_LIBRARIES = frozenset({"numpy", "torch"})
_FACTS = frozenset({"dtype", "ndim", "shape", "size"})
# What gives another name to the same elements.
_VIEWS = frozenset("T flat numpy ravel reshape squeeze transpose view".split())
_LOOPS = (ast.For, ast.AsyncFor, ast.While)
_SIMPLE = (
    ast.Name,
    ast.Constant,
    ast.BinOp,
    ast.Attribute,
    ast.Tuple,
    ast.expr_context,
    ast.operator,
)


def fill(deferral: Deferral, target: ast.Subscript) -> None:
    """An element of a local array is set to a deferred number; raises `Blocked` if others may see the array."""
    script, array = deferral.script, target.value
    statement = script.parent(target)
    name = ast.unparse(array)
    if not is_owner(array, script) or not isinstance(statement, ast.Assign):
        kind = "tensor" if script.value(array).has(TENSOR) else "array"
        raise Blocked(f"it goes into the {kind} `{name}`")
    index = _index(script, target)
    key, stored, read = _stores_and_loads(script, array)
    if not all(_is_made(script, made) for made in stored):
        raise Blocked(f"`{name}` may share its memory with another array")
    deferral.shared.add(key)
    deferral.filled[statement] = index
    is_name = isinstance(array, ast.Name)
    loop = _outermost(script, target)
    if is_name and loop is None:
        raise Blocked("the array is filled outside of a loop")
    loop = loop if is_name else None
    for load in read:
        if (element := _element(script, load)) is not None and load in deferral.always:
            deferral.filled[element[0]] = _index(script, element[1])
        elif not _is_a_fact(script, load):
            if load in deferral.always:
                raise Blocked(f"`{name}`, which holds it, is needed in every step")
            is_behind = loop is not None and load.lineno > (loop.end_lineno or 0)
            is_before = loop is not None and load.lineno < loop.lineno
            if is_before or not (is_behind or _is_used_up(script, load)):
                raise Blocked(f"`{name}`, an array, has other names")
            if not is_name and _may_be_kept(script, load):
                raise Blocked(f"`{name}`, an array, is passed on")
            deferral.arrived.add(load)


def _stores_and_loads(
    script: Script, array: Owner
) -> tuple[object, Sequence[ast.expr | None], Sequence[Owner]]:
    """Return a key, the values and the reads of a name of this function alone, or an attribute of this file alone."""
    if isinstance(array, ast.Attribute):
        definition = class_of(script, array)
        if definition and any(uses_in_other_modules(script, script, definition, array.attr)):
            raise Blocked(f"other modules use `{array.attr}` of `{definition.name}`, too")
        return stores_and_loads(script, array)
    scope, bindings, is_shared = home(script, array)
    if is_shared or script.index.scope(array) is not scope:
        raise Blocked(f"`{array.id}`, an array, is filled by another function")
    stored = [part(b) if b.how == "assign" else None for b in bindings]
    return (scope, array.id), stored, script.index.reads_of(scope, array.id)


def _may_be_kept(script: Script, load: Owner) -> bool:
    """Return True if a function that is not numpy's or Python's own takes the array."""
    parent = script.parent(load)
    while isinstance(parent, ast.keyword):
        parent = script.parent(parent)
    if not isinstance(parent, ast.Call):
        return False
    library, _, name = (script.dotted(parent.func) or "").partition(".")
    if library == "numpy":
        return name in _VIEWS or name.startswith(("as", "atleast", "broadcast"))
    names = {"float", "list", "max", "min", "print", "sum"}
    return getattr(parent.func, "id", "") not in names


def _index(script: Script, target: ast.Subscript) -> str:
    if not all(isinstance(node, _SIMPLE) for node in ast.walk(target.slice)):
        raise Blocked(f"`{ast.unparse(target)}` is not one element")
    text = script.segment(target.slice)
    return f"({text})" if isinstance(target.slice, ast.Tuple) and text[:1] != "(" else text


def _is_made(script: Script, made: ast.expr | None) -> bool:
    """`np.zeros(n)`, `torch.zeros(n)` on the host."""
    if not isinstance(made, ast.Call):
        return False
    library, _, name = (script.dotted(made.func) or "").partition(".")
    if library == "torch" and (
        keyword(made, "device") or "set_default_device" in script.source.text
    ):
        return False
    return library in _LIBRARIES and name in _MAKES


def _outermost(script: Script, node: ast.AST) -> ast.stmt | None:
    """The outermost loop of the function around `node`."""
    found = None
    for ancestor in script.ancestors(node):
        if found is None and isinstance(ancestor, ast.Try):
            raise Blocked("what an array raises is caught")
        if isinstance(ancestor, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            break
        if isinstance(ancestor, _LOOPS):
            found = ancestor
    return found


def _element(script: Script, load: Owner) -> tuple[ast.Assign, ast.Subscript] | None:
    """Return `curve[step] = ...`, whose order is kept, and `curve[step]`."""
    element = script.parent(load)
    match script.parent(element) if element is not None else None:
        case ast.Assign(targets=[ast.Subscript() as target]) as statement if target is element:
            return statement, target
    return None


def _is_a_fact(script: Script, load: Owner) -> bool:
    """`len(curve)`, `curve.shape`."""
    parent = script.parent(load)
    match parent:
        case ast.Attribute(attr=name):
            return name in _FACTS
        case ast.Call(func=ast.Name(id="len")):
            return True
    return False


def _is_used_up(script: Script, node: ast.expr) -> bool:
    """True if what is made of the array at once is something else: `curve[:n].mean()`, `print(curve)`."""
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
