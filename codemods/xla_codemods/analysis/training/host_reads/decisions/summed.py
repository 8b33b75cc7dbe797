"""Sums to which something is added where a condition holds: the device adds zero where it does not."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from .....edits import Replace
from ....projects.handed_reads import tensor_behind
from ...tensors.device_tensors import is_device_tensor
from ..calls import tensor_of
from ..read_numbers import number_of

if TYPE_CHECKING:
    from ....script import Script

_ITEM = "xla_migrate.runtime.item"


def summed_where(script: Script, statement: ast.stmt, condition: str) -> Replace | None:
    """The edit for `running += loss.item() * n`, `seen += len(x)`; None where the host has to know the condition.

    `condition` is a name for it. What the device reads is read later where sums are.
    """
    match statement:
        case ast.AugAssign(op=ast.Add(), target=ast.Name() | ast.Attribute() as target):
            value = statement.value
        case ast.Assign(
            targets=[ast.Name() as target], value=ast.BinOp(left=left, op=ast.Add(), right=value)
        ) if isinstance(left, ast.Name) and left.id == target.id:
            pass
        case _:
            return None
    if _is_counted(value):
        if not isinstance(target, ast.Name) or _is_asked(script, target):
            return None
        factor = "" if isinstance(value, ast.Constant) and value.value == 1 else "{0} * "
        return Replace(value, f"{factor}{condition}.item()", (value,) if factor else ())
    where = script.spell("torch.where", script.index.scope(statement))
    if is_device_tensor(script, value):
        return Replace(value, f"{where}({condition}, {{0}}, 0)", (value,))
    read = _factor(script, value)
    if isinstance(read, ast.Call):
        tensor = read.args[0] if script.dotted(read.func) == _ITEM else tensor_of(read)
        return Replace(tensor, f"{where}({condition}, {{0}}, 0)", (tensor,))
    if isinstance(read, ast.Name):
        behind = tensor_behind(read, script.index.scope(read), script.index)
        if behind is not None:
            return Replace(read, f"{where}({condition}, {script.segment(behind)}, 0).item()")
    return None


def _factor(script: Script, value: ast.expr) -> ast.expr | None:
    """The number that the device gives in a product: `loss.item()` in `loss.item() * x.size(0) / n`, or a name for it."""
    match value:
        case ast.Call() if number_of(script, value) is value or script.dotted(value.func) == _ITEM:
            return value
        case ast.Name():
            return value
        case ast.BinOp(op=ast.Mult() | ast.Div() as op, left=left, right=right):
            if _is_of_the_host(right):
                return _factor(script, left)
            if isinstance(op, ast.Mult) and _is_of_the_host(left):
                return _factor(script, right)
    return None


def _is_of_the_host(node: ast.expr) -> bool:
    """A constant, a size, an option."""
    match node:
        case ast.Constant() | ast.Attribute(value=ast.Name()):
            return True
    return _is_counted(node)


def _is_counted(node: ast.expr) -> bool:
    """A whole number that costs nothing to ask for: `1`, `len(x)`, `x.size(0)`, `x.shape[0]`."""
    match node:
        case ast.Constant(value=int() as number):
            return not isinstance(number, bool)
        case ast.Call(func=ast.Name(id="len"), args=[ast.Name()], keywords=[]):
            return True
        case ast.Call(func=ast.Attribute(attr="size" | "numel", value=ast.Name())):
            return True
        case ast.Subscript(
            value=ast.Attribute(attr="shape", value=ast.Name()), slice=ast.Constant()
        ):
            return True
    return False


def _is_asked(script: Script, counter: ast.Name) -> bool:
    """True if something is decided on the count, or indexed by it: it would be read in every turn."""
    found = script.index.scope(counter).find(counter.id)
    for name, scope in script.index.names(counter.id):
        if scope.find(name.id) != found:
            continue
        child: ast.AST = name
        for around in script.ancestors(name):
            if isinstance(around, (ast.If, ast.While, ast.IfExp)) and child is around.test:
                return True
            if isinstance(around, (ast.Subscript, ast.Compare)):
                return True
            if isinstance(around, ast.BinOp) and isinstance(around.op, ast.Mod):
                return True
            if isinstance(around, ast.stmt):
                break
            child = around
    return False
