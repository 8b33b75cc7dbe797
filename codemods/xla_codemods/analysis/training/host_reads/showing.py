"""Calls that show a read or a tensor in every step, and are deferred with it."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, TypeGuard

from ..tensors.device_tensors import may_be_read
from .blocked import Blocked
from .collecting import collecting, is_detached
from .decisions.conditions import condition_nodes, deferrable_condition
from .decisions.ending import waited_behind
from .deferral import Deferral
from .formatted import is_a_number, leads_to
from .loggers.printers import is_shown_elsewhere
from .loggers.trackers import logged_in_each_step, logged_to, takes_tensors
from .read_numbers import is_of_one
from .sinks import (
    is_shown_on_a_console,
    is_tracked,
    is_written_to_a_file,
)

if TYPE_CHECKING:
    from ...script import Script


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
