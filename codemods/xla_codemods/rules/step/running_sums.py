"""`running += loss.item()` in every step, read now and then: a sum that may as well be kept on the device."""

from __future__ import annotations

import ast
from collections.abc import Container, Iterable
from typing import TYPE_CHECKING

from ...edits import Edit, Replace
from ...names import Binding, Scope

if TYPE_CHECKING:
    from ...script import Script


def edits_of_sums(
    script: Script, reads: Iterable[ast.AST], always: Container[ast.AST]
) -> dict[ast.AST, tuple[Edit, ...]]:
    """For those of `reads` that only feed a running sum: the edits that keep it on the device until it is read.

    `always` holds what runs in every step: a sum that is read there is not worth keeping.
    """
    by_sum: dict[tuple[Scope, str], list[ast.Call]] = {}
    for read in reads:
        target = _sum_of(script, read)
        if target is not None and isinstance(read, ast.Call):
            by_sum.setdefault((script.index.scope(target), target.id), []).append(read)
    result: dict[ast.AST, tuple[Edit, ...]] = {}
    for (scope, name), calls in by_sum.items():
        loads = _loads(script, scope, name)
        if loads is None or any(load in always for load in loads):
            continue
        if _is_only_a_sum(scope, name, calls):
            shown: list[Edit] = [_read(script, load, scope) for load in loads]
            for k, call in enumerate(calls):
                result[call] = (_kept(call), *(shown if k == 0 else ()))
    return result


def _sum_of(script: Script, read: ast.AST) -> ast.Name | None:
    """The name that `read` is added to, alone or times and by numbers."""
    child, parent = read, script.parent(read)
    while isinstance(parent, ast.BinOp) and isinstance(parent.op, (ast.Mult, ast.Div)):
        if isinstance(parent.op, ast.Div) and parent.right is child:
            return None
        child, parent = parent, script.parent(parent)
    match read, parent:
        case (
            ast.Call(func=ast.Attribute(attr="item")),
            ast.AugAssign(target=ast.Name() as target, op=ast.Add(), value=value),
        ) if value is child:
            return target
    return None


def _is_only_a_sum(scope: Scope, name: str, calls: list[ast.Call]) -> bool:
    """Whether `name` starts as a number, and only these calls are added to it."""
    found = scope.find(name)
    if found is None or found[0] is not scope or name in scope._globals:
        return False
    added = 0
    for binding in found[1]:
        if binding.how == "augment":
            added += 1
        elif not (binding.how == "assign" and _is_zero(part(binding))):
            return False
    return added == len(calls)


def part(binding: Binding) -> ast.expr | None:
    """What is bound, of `a, b = 0, []` too."""
    value = binding.value
    for step in binding.path:
        if not isinstance(value, (ast.Tuple, ast.List)) or not 0 <= step < len(value.elts):
            return None
        value = value.elts[step]
    return value


def _is_zero(node: ast.expr | None) -> bool:
    return (
        isinstance(node, ast.Constant) and isinstance(node.value, (int, float)) and node.value == 0
    )


def _loads(script: Script, scope: Scope, name: str) -> list[ast.Name] | None:
    """Every read of `name`; None where another function reads it."""
    loads: list[ast.Name] = []
    for node, inner in script.index.of(ast.Name):
        if node.id == name and isinstance(node.ctx, ast.Load):
            if inner is scope:
                loads.append(node)
            elif inner.find(name) == scope.find(name):
                return None
    return loads


def _kept(call: ast.Call) -> Edit:
    assert isinstance(call.func, ast.Attribute)
    return Replace(call, "{0}.detach()", (call.func.value,))


def _read(script: Script, load: ast.Name, scope: Scope) -> Edit:
    """`torch.as_tensor` takes the number that the sum starts as, too."""
    return Replace(load, f"{script.spell('torch.as_tensor', scope)}({{0}}).item()", (load,))
