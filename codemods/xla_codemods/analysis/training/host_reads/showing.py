"""Output calls, lists of predictions and conditions that are deferred with the reads and tensors in them."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable
from typing import TypeGuard

from ...nodes import COMPREHENSIONS, walk
from ...script import Script
from ..tensors.device_tensors import may_be_read
from .computing import METHODS_OF_VALUES
from .conditions import condition_nodes, condition_of, refuse_to_end_later
from .deferral import Deferral
from .formatted import is_a_number, leads_to
from .functions import is_tried
from .holders import stored_in
from .read_numbers import is_of_one
from .sinks import (
    file_of,
    goes_on_after,
    is_shown_on_a_console,
    is_tracked,
    logged_in_each_step,
    logged_to,
    runs_to_its_end,
    shown_to,
    takes_tensors,
)

_DETACHED = frozenset({"detach", "numpy", "tolist", "argmax"})


def collect(deferral: Deferral, read: ast.Call) -> bool:
    """Return True if `read` goes to a list of this function: `predictions.extend(pred.cpu().numpy())`.

    The read stays if code may use the list before all values have arrived.
    """
    script = deferral.script
    added, owner = _added_to(script, read)
    loop = script.training.loop_of(read)
    if added is None or owner is None or loop is None or not isinstance(loop.node, ast.For):
        return False
    scope = script.index.scope(owner)
    found = scope.find(owner.id)
    if found is None or found[0] is not scope or not _is_collected(script, owner):
        return False
    if not goes_on_after(loop) or is_tried(script, loop.node):
        deferral.refuse("the loop may end before all values are available")
    for node, inner in script.index.names_of(scope, owner.id):
        if inner is not scope and not _is_evaluated_here(script, inner.node):
            deferral.refuse(f"`{owner.id}` is read in another function")
        elif loop.node in script.ancestors(node):
            if (other := _added_by(script, node)) is None:
                deferral.refuse(f"the loop reads `{owner.id}`")
            else:
                deferral.together.add(other)
    if not (_is_detached(script, read) or script.training.is_inference(read)):
        deferral.refuse("gradients flow through it")
    deferral.show(added, [read])
    deferral.read.add(read)
    deferral.shared.add((scope, owner.id))
    if not (loop.fed and runs_to_its_end(loop)):
        deferral.wait_after(loop.node)
    return True


def _is_evaluated_here(script: Script, node: ast.AST) -> bool:
    """Return True for a comprehension, and for a generator that a call takes at once."""
    is_taken = isinstance(script.parent(node), ast.Call) or not isinstance(node, ast.GeneratorExp)
    return isinstance(node, COMPREHENSIONS) and is_taken


def _is_collected(script: Script, owner: ast.Name) -> bool:
    """Return True if `owner` is a list that starts empty."""
    bindings = script.bindings(owner)
    if not all(b.how in {"assign", "augment"} for b in bindings):
        return False
    return any(isinstance(made, ast.List) and not made.elts for made in stored_in(script, owner))


def _added_to(
    script: Script, read: ast.AST
) -> tuple[ast.Call | ast.AugAssign | None, ast.Name | None]:
    """Return `predictions.extend(...)` or `predictions += ...` around `read`, and the list's name."""
    node = script.parent(read)
    while node is not None and _passes(node):
        node = script.parent(node)
    match node:
        case (
            ast.Call(func=ast.Attribute(value=ast.Name() as owner))
            | ast.AugAssign(target=ast.Name() as owner, op=ast.Add())
        ):
            return _added_by(script, owner), owner
    return None, None


def _passes(node: ast.AST) -> bool:
    """Return True if `node` passes the values on, or computes with them on the host."""
    match node:
        case ast.Attribute(attr=name) | ast.Call(func=ast.Attribute(attr=name)):
            return name in METHODS_OF_VALUES
        case ast.Call(func=ast.Name(id=name)):
            return name in {"list", "tuple"}
    return isinstance(node, ast.Tuple)


def _added_by(script: Script, node: ast.Name) -> ast.Call | ast.AugAssign | None:
    """Return what adds to the list at this use of it."""
    parent = script.parent(node)
    call = script.parent(parent) if isinstance(parent, ast.Attribute) else parent
    match call:
        case ast.AugAssign(target=target) if target is node:
            return call
        case ast.Call(func=ast.Attribute(attr="append" | "extend") as func, args=[_]):
            return call if func is parent and isinstance(script.parent(call), ast.Expr) else None
    return None


def _is_detached(script: Script, read: ast.AST) -> bool:
    """Return True if no gradient flows through what is made of `read`."""
    names = {n.attr for n in walk(read) if isinstance(n, ast.Attribute)}
    node: ast.AST | None = read
    while node is not None and not isinstance(node, ast.stmt):
        names |= {node.attr} if isinstance(node, ast.Attribute) else set()
        node = script.parent(node)
    return not names.isdisjoint(_DETACHED)


def log_later(deferral: Deferral, call: ast.Call, to: str, shown: Iterable[ast.AST]) -> None:
    """Defer `call`, and every other call that logs to the tracker `to` in a step, in order."""
    if to and to == logged_to(deferral.script, call):
        deferral.shared.add(("tracker", to))
        for other in logged_in_each_step(deferral, to):
            deferral.show(other, ())
    deferral.show(call, [*shown])


def is_host_value(read: ast.AST, script: Script) -> TypeGuard[ast.Call]:
    """True for `output.detach().cpu().numpy()` and `output.tolist()`: of a copy on the host it is the same."""
    match read:
        case ast.Call(func=ast.Attribute(attr="cpu" | "tolist"), args=[], keywords=[]):
            return _is_detached(script, read) or script.training.is_inference(read)
    return False


def show_tensors(deferral: Deferral, read: ast.AST, tensors: list[ast.expr]) -> bool:
    """Return True if `read` shows `tensors` themselves in a call. Host copies look the same if one number is formatted."""
    script = deferral.script
    statement = script.statement(read)
    call = statement.value if isinstance(statement, ast.Expr) else None
    if isinstance(read, ast.Call) and collect(deferral, read):
        return True
    if defer_condition(deferral, read, tensors):
        return True
    if not isinstance(call, ast.Call) or not leads_to(script, read, call):
        return False
    to = shown_to(script, call)
    if is_host_value(read, script):
        if to is None or to == file_of(script, call):
            return False
        deferral.read.add(read)
        log_later(deferral, call, to, [read])
        return True
    if not tensors:
        return False
    if is_tracked(script, call):
        known = read is call
    elif to and to == logged_to(script, call):  # larger tensors would fill the device's memory
        known = read is call and all(is_of_one(script, tensor) for tensor in tensors)
        known = known and takes_tensors(script, call)
    else:
        known = is_a_number(script, read, tensors)
        if to is None and known:
            return False
    if to is None:
        deferral.refuse(f"it is not known what `{ast.unparse(call.func)}` does with it")
    elif not known:
        deferral.refuse("the tensor itself is printed: print its `.item()`")
    else:
        log_later(deferral, call, to, tensors)
    return True


def defer_condition(deferral: Deferral, statement: ast.AST, reads: Collection[ast.expr]) -> bool:
    """Defer `if loss.item() > 9: print(loss.item())` as a whole, also if it rarely holds."""
    script, condition = deferral.script, condition_of(deferral.script, statement)
    if condition is None or not (condition.shows or condition.how):
        return False
    if not all(is_shown_on_a_console(script, call) for call in condition.shows):
        return False
    assert isinstance(statement, (ast.If, ast.Assert))
    if condition.how:
        refuse_to_end_later(deferral, statement, condition)
    deferral.show(statement, reads)
    named = {read.id for read in reads if isinstance(read, ast.Name)}
    for node in condition_nodes(condition):
        match node:
            case ast.Name(id=name) if name in named:
                deferral.show(statement, [node])
            case ast.Call(func=ast.Attribute(attr="item", value=owner), args=[], keywords=[]):
                if may_be_read(script, owner):
                    deferral.show(statement, [node])
                    deferral.read.add(node)
    return True
