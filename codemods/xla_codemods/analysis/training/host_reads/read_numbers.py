"""The number that a read returns (`loss.item()`, `float(loss)`), what it depends on, and whether it is on the device."""

from __future__ import annotations

import ast
from collections.abc import Collection

from ....flow.closure import all_ends
from ....flow.edges import sources
from ...nodes import walk
from ...script import Script
from ...syntax import below, keyword, name_of
from ..tensors.device_tensors import is_device_tensor
from ..tensors.losses import losses

_PASSING = frozenset({"cpu", "detach", "numpy"})
_OF_A_LOSS = frozenset({"clone", "cpu", "data", "detach", "mean", "sum"})
_GIVING_REALS = frozenset({"exp", "float", "log", "mean", "norm", "sigmoid", "sqrt", "std", "var"})
_REDUCING = frozenset({"mean", "sum"})


def number_of(script: Script, read: ast.AST) -> ast.Call | None:
    """The call that gives the number of `read`: `loss.item()`, of `loss.cpu()` too, `float(loss)`, and `loss.tolist()` of a loss."""
    match read:
        case ast.Call(func=ast.Attribute(attr="item"), args=[], keywords=[]):
            return read
        case ast.Call(func=ast.Attribute(attr="tolist", value=owner), args=[]):
            return read if is_of_a_loss(script, owner) else None
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
    """True if `node` is surely of floats: a loss, a mean, a norm, or a name of one."""
    return is_of_a_loss(script, node) or all_ends(
        [node], lambda n: sources(script, n), _gives_reals
    )


def _gives_reals(node: ast.expr) -> bool:
    name = name_of(node.func) if isinstance(node, ast.Call) else ""
    return name in _GIVING_REALS or name.endswith("_loss")


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
                if name == "item" or (name == "tolist" and is_of_a_loss(script, call.func.value)):
                    return call
                if name not in _PASSING:
                    return None
                node = call
            case _:
                return None


def is_of_a_loss(script: Script, node: ast.expr) -> bool:
    """True if `node` is a loss, which has no integers: `loss`, `loss.data`, `loss.detach()`, `loss.mean()`."""
    node = below(node, _OF_A_LOSS)
    function = script.function(node)
    return isinstance(node, ast.Name) and any(
        isinstance(loss, ast.Name) and loss.id == node.id and script.function(loss) is function
        for loss in losses(script)
    )


def _is_a_count(node: ast.Call) -> bool:
    """`(pred == y).sum()`, `pred.eq(y).sum()`: always an integer."""
    match node.func:
        case ast.Attribute(
            attr="sum", value=ast.Compare(ops=[_]) | ast.Call(func=ast.Attribute(attr="eq" | "ne"))
        ):
            return not node.args and not node.keywords
    return False


def is_of_one(script: Script, read: ast.expr) -> bool:
    """True if `read` is of a loss, or of a mean or sum of everything: it has no dimensions."""
    node = read.value if isinstance(read, ast.Attribute) else read
    if is_of_a_loss(script, node):
        return True
    node = _below(node, {*_PASSING, "float"})
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in _REDUCING
        and not (node.args or node.keywords)
    )


def tensor_of(number: ast.Call) -> ast.expr:
    """Return the tensor that `number` reads: `loss` of `loss.cpu().item()` and of `float(loss)`."""
    operand = number.func.value if isinstance(number.func, ast.Attribute) else number.args[0]
    return _below(operand, _PASSING)


def _below(node: ast.expr, passing: Collection[str]) -> ast.expr:
    """Return `loss` of `loss.cpu().data.numpy()`, and `loss.data` of `loss.data.cpu()`."""
    node = below(node, passing)
    match node:
        case ast.Attribute(attr="data", value=ast.Call() as inner):
            return _below(inner, passing)
    return node


_FAULTS = frozenset({"isnan", "isfinite", "isinf"})


def good_step(script: Script, test: ast.AST) -> str:
    """Return the tensor by which a test for NaN lets the step be taken; empty for other tests."""
    conditions = []
    for call in walk(test):
        match call:
            case (
                ast.Call(func=ast.Attribute(attr=name) | ast.Name(id=name), args=[value])
                | ast.Call(func=ast.Attribute(attr=name, value=value), args=[])
            ) if name in _FAULTS:
                number = isinstance(value, ast.Call) and number_of(script, value)
                tensor = script.segment(tensor_of(number) if number else value)
                is_good, reduced = ("", ".all()") if name == "isfinite" else ("~", ".any()")
                is_reduced = getattr(script.parent(call), "attr", "") in ("any", "all")
                tested = f"torch.{name}({tensor}){reduced if is_reduced else ''}"
                if over := _generators(script, call):
                    tested = f"torch.stack([{tested} {over}]){reduced}"
                conditions.append(f"{is_good}{tested}")
    return " & ".join(conditions)


def _generators(script: Script, call: ast.Call) -> str:
    """Return `for p in ...` of the comprehension whose element is tested; empty if there is none."""
    for child, ancestor in script.upward(call):
        if isinstance(ancestor, ast.stmt):
            break
        if isinstance(ancestor, (ast.ListComp, ast.GeneratorExp)) and child is ancestor.elt:
            return "".join(map(ast.unparse, ancestor.generators)).strip()
    return ""


_MAKES = frozenset({"torch.ones", "torch.zeros"})
_SINGLE = frozenset({"torch.float", "torch.float32"})


def is_added_on_the_device(
    script: Script, node: ast.expr, read: ast.expr, target: ast.Subscript
) -> bool:
    """Return True if `target += node` adds a read to an element of a 32-bit tensor of the device.

    The element adds tensors and numbers alike.
    """
    owner = target.value
    if node is not read or not isinstance(read, ast.Call) or not isinstance(owner, ast.Name):
        return False
    bindings = script.bindings(owner)
    if len(bindings) != 1 or bindings[0].how != "assign" or bindings[0].path:
        return False
    made = bindings[0].value
    is_there = is_device_tensor(script, owner) or _is_moved_by_index(script, made)
    is_sum = isinstance(target.slice, ast.Constant) and is_there and _is_single(script, made)
    return is_sum and is_device_tensor(script, tensor_of(read))


def _is_moved_by_index(script: Script, made: ast.expr | None) -> bool:
    """Return True for `.to(local_rank)`, whose device another fix names."""
    match made:
        case ast.Call(func=ast.Attribute(attr="to"), args=[index], keywords=[]):
            return script.devices.is_index(index)
    return False


def _is_single(script: Script, made: ast.expr | None) -> bool:
    """Return True for `torch.zeros(2, device=device)` and `torch.zeros(2).to(device)`."""
    match made:
        case ast.Call(func=ast.Attribute(attr="cuda", value=inner), args=[], keywords=[]):
            return _is_single(script, inner)
        case ast.Call(func=ast.Attribute(attr="to", value=inner), args=[device], keywords=[]):
            is_type = (script.dotted(device) or "").startswith("torch.")  # .to(torch.float64)
            return not is_type and _is_single(script, inner)
        case ast.Call(func=func) if script.dotted(func) in _MAKES:
            dtype = keyword(made, "dtype")
            return dtype is None or script.dotted(dtype) in _SINGLE
    return False
