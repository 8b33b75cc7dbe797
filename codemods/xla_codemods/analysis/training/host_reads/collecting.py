"""Lists that whole tensors are collected in, batch by batch: `predictions.extend(pred.cpu().numpy())`.

The call that adds to the list is made later, when the values have come. Where a device loader feeds the loop all have
come when it ends, and others are waited for there; so nothing else may look at the list in the loop, and nothing may leave the loop before its end.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, NamedTuple

from ...inference.unpacking import part
from ...nodes import walk
from .blocked import Blocked
from .computing import METHODS_OF_VALUES
from .functions import is_tried
from .sinks import goes_on_behind, runs_to_its_end

if TYPE_CHECKING:
    from ...scopes import Scope
    from ...script import Script

_DETACHED = frozenset({"detach", "numpy", "tolist", "argmax"})
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_CHAINED = frozenset({"list", "tuple"})
Added = ast.Call | ast.AugAssign


class Collection(NamedTuple):
    """What adds a read to the list `name` of `scope`, and all that adds to it in the same loop."""

    scope: Scope
    name: str
    added: Added
    others: set[Added]
    # After this loop pending values have to be resolved: the end of a device loader does not do so.
    loop: ast.stmt | None


def collecting(script: Script, read: ast.Call) -> Collection | None:
    """Return the list of this function that `read` is added to; None if there is none.

    Raises `Blocked` if code may use the list before all values have arrived.
    """
    added, owner = _added_to(script, read)
    if added is None or owner is None:
        return None
    loop = script.training.loop_of(read)
    scope = script.index.scope(owner)
    found = scope.find(owner.id)
    if loop is None or found is None or found[0] is not scope:
        return None
    if not all(b.how in {"assign", "augment"} for b in found[1]) or not any(
        isinstance(part(b), ast.List) and not part(b).elts  # type: ignore[union-attr]
        for b in found[1]
        if b.how == "assign"
    ):
        return None
    if not goes_on_behind(loop) or is_tried(script, loop.node):
        raise Blocked("the loop may end before all values have come")
    others: set[Added] = set()
    for node, inner in script.index.names_of(found[0], owner.id):
        if inner is not scope and inner.find(owner.id) != found:
            continue
        if inner is not scope and not _is_in_a_comprehension(script, node, inner, scope):
            raise Blocked(f"`{owner.id}` is read in another function or a comprehension")
        if loop.node in script.ancestors(node):
            if (other := _added_by(script, node)) is None:
                raise Blocked(f"`{owner.id}` is looked at in the loop")
            others.add(other)
    if not (is_detached(script, read) or script.training.is_inference(read)):
        raise Blocked("gradients go through it")
    assert isinstance(loop.node, ast.For)
    waits = loop.fed and runs_to_its_end(loop)
    return Collection(scope, owner.id, added, others, None if waits else loop.node)


def _is_in_a_comprehension(script: Script, node: ast.Name, inner: Scope, scope: Scope) -> bool:
    """`[names[k] for k in predictions]` of the same function, which is computed where it stands."""
    around: Scope | None = inner
    while around is not None and around is not scope:
        if not isinstance(around.node, _COMPREHENSIONS):
            return False
        if isinstance(around.node, ast.GeneratorExp):
            call = script.parent(around.node)
            if not isinstance(call, ast.Call) or isinstance(script.parent(call), ast.comprehension):
                return False
        around = around.parent
    return True


def _added_to(script: Script, read: ast.AST) -> tuple[Added | None, ast.Name | None]:
    """`predictions.extend(...)` or `predictions += ...` around `read`, and the list's name."""
    node = script.parent(read)
    while node is not None and _passes(node):
        node = script.parent(node)
    statement = script.parent(node) if node is not None else None
    match node:
        case ast.Call(func=ast.Attribute(attr="append" | "extend", value=ast.Name() as owner)):
            if isinstance(statement, ast.Expr) and len(node.args) == 1:
                return node, owner
        case ast.AugAssign(target=ast.Name() as owner, op=ast.Add()):
            return node, owner
    return None, None


def _passes(node: ast.AST) -> bool:
    """What hands the values on as they are, or computes of them on the host."""
    match node:
        case ast.Attribute(attr=name):
            return name in METHODS_OF_VALUES
        case ast.Call(func=ast.Attribute(attr=name)):
            return name in METHODS_OF_VALUES
        case ast.Call(func=ast.Name(id=name)):
            return name in _CHAINED
        case ast.Tuple():
            return True
    return False


def _added_by(script: Script, node: ast.Name) -> Added | None:
    """What adds to the list at this use of it."""
    parent = script.parent(node)
    if isinstance(parent, ast.AugAssign) and parent.target is node:
        return parent
    call = script.parent(parent) if isinstance(parent, ast.Attribute) else None
    if isinstance(call, ast.Call) and isinstance(parent, ast.Attribute) and call.func is parent:
        return call if parent.attr in {"append", "extend"} else None
    return None


def is_detached(script: Script, read: ast.AST) -> bool:
    node: ast.AST | None = read
    names = {n.func.attr for n in walk(read) if _is_method(n)}  # type: ignore[attr-defined]
    while node is not None and not isinstance(node, ast.stmt):
        if isinstance(node, ast.Attribute):
            names.add(node.attr)
        node = script.parent(node)
    return not names.isdisjoint(_DETACHED)


def _is_method(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
