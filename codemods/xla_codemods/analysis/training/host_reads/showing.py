"""Calls that show a read or a tensor in every step, and are deferred with it."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, NamedTuple, TypeGuard

from ...inference.unpacking import part
from ...nodes import walk
from ..tensors.device_tensors import may_be_read
from .blocked import Blocked
from .computing import METHODS_OF_VALUES
from .decisions.conditions import condition_nodes, deferrable_condition
from .decisions.ending import waited_behind
from .deferral import Deferral
from .formatted import is_a_number, leads_to
from .functions import is_tried
from .loggers.printers import is_shown_elsewhere
from .loggers.trackers import logged_in_each_step, logged_to, takes_tensors
from .read_numbers import is_of_one
from .sinks import (
    goes_on_behind,
    is_shown_on_a_console,
    is_tracked,
    is_written_to_a_file,
    runs_to_its_end,
)

if TYPE_CHECKING:
    from ...scopes import Scope
    from ...script import Script

# Lists that whole tensors are collected in, batch by batch: `predictions.extend(pred.cpu().numpy())`.

_DETACHED = frozenset({"detach", "numpy", "tolist", "argmax"})
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_CHAINED = frozenset({"list", "tuple"})
Added = ast.Call | ast.AugAssign


class Collected(NamedTuple):
    """What adds a read to the list `name` of `scope`, and all that adds to it in the same loop."""

    scope: Scope
    name: str
    added: Added
    others: set[Added]
    # After this loop pending values have to be resolved: the end of a device loader does not do so.
    loop: ast.stmt | None


def collecting(script: Script, read: ast.Call) -> Collected | None:
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
    return Collected(scope, owner.id, added, others, None if waits else loop.node)


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


def is_shown(script: Script, call: ast.Call) -> bool:
    """Return True if `call` prints, logs or writes what it is given, and may run later."""
    return (
        is_shown_on_a_console(script, call)
        or is_tracked(script, call)
        or is_shown_elsewhere(script, call)
        or is_written_to_a_file(script, call)
    )


def logging_call(deferral: Deferral, node: ast.AST) -> ast.Call | None:
    """The call around `node`, in every step, that tells a logger or tracker something."""
    statement = deferral.script.statement(node)
    call = statement.value if isinstance(statement, ast.Expr) else None
    if node not in deferral.always or not isinstance(call, ast.Call):
        return None
    return (
        call if leads_to(deferral.script, node, call) and logged_to(deferral.script, call) else None
    )


def log_later(deferral: Deferral, call: ast.Call, shown: Iterable[ast.AST]) -> None:
    """Defer `call`, and every other call that logs to the same object in a step, in order."""
    owner = logged_to(deferral.script, call)
    assert owner is not None
    deferral.shared.add(("logged_to", owner))
    for other in logged_in_each_step(deferral.script, owner, deferral.always):
        deferral.later.setdefault(other, set())
    deferral.later.setdefault(call, set()).update(shown)


def is_host_value(read: ast.AST, script: Script) -> TypeGuard[ast.Call]:
    """True for `output.detach().cpu().numpy()` and `output.tolist()`: of a copy on the host it is the same."""
    match read:
        case ast.Call(func=ast.Attribute(attr="cpu" | "tolist"), args=[], keywords=[]):
            return is_detached(script, read) or script.training.is_inference(read)
    return False


def show_tensors(deferral: Deferral, read: ast.AST, tensors: list[ast.expr]) -> bool:
    """Return True if `read` shows `tensors` themselves in a call. Host copies look the same if one number is formatted."""
    script = deferral.script
    statement = script.statement(read)
    call = statement.value if isinstance(statement, ast.Expr) else None
    if isinstance(read, ast.Call) and (kept := collecting(script, read)):
        deferral.later.setdefault(kept.added, set()).add(read)
        deferral.read.add(read)
        deferral.shared.add((kept.scope, kept.name))
        deferral.together |= kept.others
        if kept.loop is not None:
            deferral.waited.add(kept.loop)
            deferral.shared.add(kept.loop)  # of which one waits for all
        return True
    if defer_condition(deferral, read, tensors):
        return True
    if not isinstance(call, ast.Call) or not leads_to(script, read, call):
        return False
    if is_host_value(read, script):
        if is_shown_on_a_console(script, call) or is_tracked(script, call):
            deferral.later.setdefault(call, set()).add(read)
        elif logging_call(deferral, read) is not None:
            log_later(deferral, call, [read])
        else:
            return False
        deferral.read.add(read)
        return True
    if not tensors:
        return False
    if read is call and _logs_numbers(deferral, call, tensors):
        log_later(deferral, call, tensors)
        return True
    if is_tracked(script, call):
        known = read is call
    elif is_shown_on_a_console(script, call):
        known = is_a_number(script, read, tensors)
    else:
        if is_a_number(script, read, tensors):
            return False
        raise Blocked(f"what `{ast.unparse(call.func)}` does with it is not known")
    if not known:
        raise Blocked("a tensor is shown as it is: give its `.item()`")
    deferral.later.setdefault(call, set()).update(tensors)
    return True


def _logs_numbers(deferral: Deferral, call: ast.Call, tensors: list[ast.expr]) -> bool:
    """`accelerator.log({"loss": loss})`, of tensors with one number: larger ones would fill the device's memory until they are logged."""
    script = deferral.script
    if is_tracked(script, call) or logging_call(deferral, call) is None:
        return False
    return takes_tensors(script, call) and all(is_of_one(script, tensor) for tensor in tensors)


def defer_condition(deferral: Deferral, statement: ast.AST, reads: Collection[ast.expr]) -> bool:
    """`if loss.item() > 9: print(loss.item())`: defer the shown values together with the condition, even a rare one."""
    condition = deferrable_condition(deferral.script, statement)
    if condition is None:
        return False
    assert isinstance(statement, (ast.If, ast.Assert))
    loops = waited_behind(deferral.script, statement) if condition.how else []
    deferral.waited.update(loops)
    deferral.shared.update(loops)  # of which one waits for all
    kept = deferral.later.setdefault(statement, set())
    kept.update(reads)
    named = {read.id for read in reads if isinstance(read, ast.Name)}
    for node in condition_nodes(condition):
        match node:
            case ast.Name(id=name) if name in named:
                kept.add(node)
            case ast.Call(func=ast.Attribute(attr="item", value=owner), args=[], keywords=[]):
                if may_be_read(deferral.script, owner):
                    kept.add(node)
                    deferral.read.add(node)
    return True
