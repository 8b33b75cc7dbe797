"""The number that a read returns: `loss.item()`, `float(loss)`, `loss.cpu().numpy()`."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from ..tensors.device_tensors import losses

if TYPE_CHECKING:
    from ...script import Script

_PASSING = frozenset({"cpu", "detach", "numpy"})
_OF_A_LOSS = frozenset({"clone", "cpu", "detach", "mean", "sum"})
_OF_REALS = frozenset({"torch.exp", "torch.log", "torch.sqrt"})
_GIVING_REALS = frozenset({"exp", "float", "log", "mean", "norm", "sigmoid", "sqrt", "std", "var"})
_KEEPING = frozenset({"abs", "clone", "cpu", "detach", "max", "min", "sum"})
_REDUCING = frozenset({"mean", "sum"})


def number_of(script: Script, read: ast.AST) -> ast.Call | None:
    """The call that gives the number of `read`: `loss.item()`, of `loss.cpu()` too, `float(loss)`, and `loss.tolist()` of a loss."""
    match read:
        case ast.Call(func=ast.Attribute(attr="item"), args=[], keywords=[]):
            return read
        case ast.Call(func=ast.Attribute(attr="tolist", value=owner), args=[]):
            return read if _is_of_a_loss(script, owner) else None
        case ast.Call(func=ast.Attribute(attr="cpu")):
            return _number_around(script, read)
        case ast.Call(func=ast.Name(id="int"), args=[ast.Call() as counted], keywords=[]):
            return read if _is_a_count(counted) else None
        case ast.Call(func=ast.Name(id="float") as func, args=[_], keywords=[]):
            return read if script.index.scope(func).find("float") is None else None
    return None


def may_be_an_integer(script: Script, number: ast.Call, tensor: ast.expr) -> bool:
    """True for `float(correct)`, of which `correct.item()` may be another number."""
    return (
        isinstance(number.func, ast.Name)
        and number.func.id == "float"
        and not _is_real(script, tensor)
    )


def _is_real(script: Script, node: ast.expr) -> bool:
    """True if `node` is surely of floats: a loss and what is computed with it, quotients, means, norms."""
    match node:
        case ast.BinOp(op=ast.Div()):
            return True
        case ast.BinOp(left=left, right=right):
            return _is_real(script, left) or _is_real(script, right)
        case ast.UnaryOp(operand=operand):
            return _is_real(script, operand)
        case ast.Call(func=ast.Attribute(attr=name)) if name in _GIVING_REALS:
            return True
        case ast.Call(func=ast.Attribute(attr=name, value=owner)) if name in _KEEPING:
            return _is_real(script, owner)
    return _is_of_a_loss(script, node)


def _number_around(script: Script, read: ast.Call) -> ast.Call | None:
    """`loss.cpu().numpy().item()` or `float(loss.detach().cpu().numpy())`, whose `.cpu()` is `read`."""
    node = read
    while True:
        match parent := script.parent(node):
            case ast.Call(func=ast.Name(id="float") as func, args=[_], keywords=[]):
                is_pythons = script.index.scope(func).find("float") is None
                return parent if is_pythons and parent.args == [node] else None
            case ast.Attribute(attr=name):
                call = script.parent(parent)
                if not isinstance(call, ast.Call) or call.func is not parent or call.args:
                    return None
                if name == "item" or (name == "tolist" and _is_of_a_loss(script, call.func.value)):
                    return call
                if name not in _PASSING:
                    return None
                node = call
            case _:
                return None


def _is_of_a_loss(script: Script, node: ast.expr) -> bool:
    """True if `node` is a loss, which has no integers: `loss`, `loss.data`, `loss.detach()`, `loss.mean()`."""
    while True:
        match node:
            case ast.Call(func=ast.Attribute(attr=name, value=owner), args=[]):
                if name not in _OF_A_LOSS:
                    return False
                node = owner
            case ast.Attribute(attr="data", value=owner):
                node = owner
            case ast.Call(func=func, args=[given], keywords=[]) if script.dotted(func) in _OF_REALS:
                node = given
            case _:
                break
    function = script.function(node)
    return isinstance(node, ast.Name) and any(
        isinstance(loss, ast.Name) and loss.id == node.id and script.function(loss) is function
        for loss in losses(script)
    )


def _is_a_count(node: ast.Call) -> bool:
    """`(pred == y).sum()`, `pred.eq(y).sum()`: always an integer."""
    match node.func:
        case ast.Attribute(attr="sum", value=ast.Compare(ops=[_])):
            return not node.args and not node.keywords
        case ast.Attribute(attr="sum", value=ast.Call(func=ast.Attribute(attr="eq" | "ne"))):
            return not node.args and not node.keywords
    return False


def is_of_one(script: Script, read: ast.expr) -> bool:
    """True if `read` is of a loss, or of a mean or sum of everything: it has no dimensions."""
    node = read.value if isinstance(read, ast.Attribute) else read
    if _is_of_a_loss(script, node):
        return True
    while isinstance(node, ast.Attribute) or (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in {*_PASSING, "float"}
    ):
        node = node.value if isinstance(node, ast.Attribute) else node.func.value  # type: ignore[attr-defined]
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in _REDUCING
        and not (node.args or node.keywords)
    )


def tensor_of(number: ast.Call) -> ast.expr:
    """Return the tensor that `number` reads: `loss` of `loss.cpu().item()` and of `float(loss)`."""
    operand = number.func.value if isinstance(number.func, ast.Attribute) else number.args[0]
    while True:
        match operand:
            case ast.Attribute(attr="data", value=ast.Call(func=ast.Attribute(attr=name)) as call):
                inner: ast.expr = call
            case ast.Call(func=ast.Attribute(attr=name, value=inner), args=[]):
                pass
            case _:
                return operand
        if name not in _PASSING:
            return operand
        operand = inner
