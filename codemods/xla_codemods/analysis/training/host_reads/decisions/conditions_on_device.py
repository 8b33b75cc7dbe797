"""Conditions as the device can compute them: `not math.isfinite(loss.item())` is `~torch.isfinite(loss)`."""

from __future__ import annotations

import ast
import math
from typing import TYPE_CHECKING

from .....patterns import Pattern
from ....nodes import walk
from ....projects.handed_reads import tensor_behind
from ....syntax import is_pure
from ...tensors.device_tensors import is_device_tensor, may_be_read
from ..calls import tensor_of
from ..read_numbers import number_of

if TYPE_CHECKING:
    from ....script import Script

_ASKED = frozenset({"isfinite", "isinf", "isnan"})
_OF_ALL = frozenset({"all", "any"})
_ORDERS = (ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Eq, ast.NotEq)


def on_the_device(script: Script, test: ast.expr, holds: bool = True) -> str | None:
    """A tensor of truth values that says whether `test` holds, or with `holds` False whether it does not; None where
    the device cannot tell.
    """
    match test:
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return on_the_device(script, operand, not holds)
        case ast.BoolOp(op=op, values=values):
            asked = [value for value in values if not _is_of_the_host(script, value)]
            parts = [part for v in values if (part := _part(script, v, holds)) is not None]
            if not asked or len(parts) < len(values):
                return None
            if len(asked) < len(values) and any(map(_may_fail, asked)):
                return None  # where the other side says that it may not be asked
            sign = " & " if isinstance(op, ast.And) == holds else " | "
            return sign.join(map(_operand, parts))
    text = _asked(script, test)
    if text is None or holds:
        return text
    return f"~{_operand(text)}"


def _operand(text: str) -> str:
    """`text`, in parentheses unless it is a name or a call, or what is inverted of one."""
    node: ast.expr = ast.parse(text, mode="eval").body
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Invert):
        node = node.operand
    return text if isinstance(node, (ast.Name, ast.Call, ast.Attribute)) else f"({text})"


def _part(script: Script, value: ast.expr, holds: bool) -> str | None:
    """One side of `and` or `or`: what the host knows is given to the device."""
    if _is_of_the_host(script, value):
        text = script.segment(value)
        return f"bool({text})" if holds else f"not {_operand(text)}"
    return on_the_device(script, value, holds)


def _may_fail(node: ast.expr) -> bool:
    return any(isinstance(n, ast.Subscript) for n in walk(node))


def _is_of_the_host(script: Script, node: ast.expr) -> bool:
    """`args.skip_nan`, `step > 10`: options and counts, that are no tensors."""
    parts = [n for n in walk(node) if isinstance(n, ast.expr)]
    return is_pure(node) and not any(
        is_device_tensor(script, n) or may_be_read(script, n) or isinstance(n, ast.Call)
        for n in parts
    )


def _asked(script: Script, test: ast.expr) -> str | None:
    """`torch.isnan(loss)`, `loss.isnan()`, `math.isnan(loss.item())`, `loss > 10`, a name for one of them."""
    match test:
        case ast.Call(func=ast.Attribute(attr="item", value=inner), args=[], keywords=[]):
            return _asked(script, inner)
        case ast.Call(func=ast.Name(id="bool") as func, args=[inner], keywords=[]):
            return _asked(script, inner) if script.index.scope(func).find("bool") is None else None
        case ast.Call(func=ast.Attribute(attr=name) as func, args=[inner], keywords=[]):
            home, _, asked = (script.dotted(func) or "").rpartition(".")
            if asked in _ASKED and home in {"torch", "math", "numpy"}:
                tensor = _tensor(script, inner)
                isfinite = script.spell(f"torch.{asked}", script.index.scope(test))
                return f"{isfinite}({tensor})" if tensor else None
            if home == "torch" and name in _OF_ALL:
                return script.segment(test) if is_device_tensor(script, test) else None
        case ast.Call(func=ast.Attribute(attr=name, value=owner), args=[], keywords=[]):
            if name in _ASKED | _OF_ALL and is_device_tensor(script, test):
                return script.segment(test)
            if name in _OF_ALL and _asked(script, owner) is not None:
                return script.segment(test)
        case ast.UnaryOp(op=ast.Invert(), operand=inner):
            return script.segment(test) if _is_a_tensor_itself(script, inner) else None
        case ast.BinOp(op=ast.BitAnd() | ast.BitOr(), left=left, right=right):
            both = _is_a_tensor_itself(script, left) and _is_a_tensor_itself(script, right)
            return script.segment(test) if both else None
        case ast.Compare(left=left, ops=[op], comparators=[right]) if isinstance(op, _ORDERS):
            return _compared(script, test, left, right)
        case ast.Name():
            return _named(script, test)
    return None


def _is_a_tensor_itself(script: Script, test: ast.expr) -> bool:
    """True for a condition that stands there as the device computes it: `torch.isnan(loss)`, not of `loss.item()`."""
    return _asked(script, test) == script.segment(test)


def _named(script: Script, name: ast.Name) -> str | None:
    """A name for a condition, which is a tensor itself."""
    bindings = script.reaching(name)
    if len(bindings) != 1 or bindings[0].how != "assign" or bindings[0].path:
        return None
    value = bindings[0].value
    return name.id if value is not None and _is_a_tensor_itself(script, value) else None


def _compared(script: Script, test: ast.Compare, left: ast.expr, right: ast.expr) -> str | None:
    """`loss > 10`, also of `loss.item()`, where the device's type has the number that it is compared with."""
    sides = [_tensor(script, side) for side in (left, right)]
    if not any(sides):
        return None
    texts = []
    for side, tensor in zip((left, right), sides, strict=True):
        if tensor is None and not _is_exact(side):
            return None
        texts.append(tensor or script.segment(side))
    return f" {_SIGNS[type(test.ops[0])]} ".join(texts)


_SIGNS: dict[type[ast.cmpop], str] = {
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.Eq: "==",
    ast.NotEq: "!=",
}


def _is_exact(node: ast.expr) -> bool:
    """True for a number that bfloat16 has."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        node = node.operand
    match node:
        case ast.Constant(value=int() | float() as number) if not isinstance(number, bool):
            return math.isfinite(number) and (math.frexp(number)[0] * 256).is_integer()
    return False


def _tensor(script: Script, node: ast.expr) -> str | None:
    """The text of the tensor that `node` is, or whose number it is; by a name only while the tensor is what it was."""
    if is_device_tensor(script, node):
        return script.segment(node)
    if isinstance(node, ast.Call) and number_of(script, node) is node:
        return script.segment(tensor_of(node))
    if isinstance(node, ast.Name):
        scope = script.index.scope(node)
        tensor = tensor_behind(node, scope, script.index)
        return script.segment(tensor) if tensor is not None else None
    return None


_DRAWING = Pattern(r"rand|dropout|bernoulli|multinomial|normal|uniform")


def only_computes(script: Script, node: ast.expr) -> bool:
    """True if `node` is computed of tensors by functions of torch's, which change nothing and draw no random numbers."""
    if not is_device_tensor(script, node):
        return False
    for call in (n for n in walk(node) if isinstance(n, ast.Call)):
        name = getattr(call.func, "attr", getattr(call.func, "id", ""))
        is_method = isinstance(call.func, ast.Attribute) and is_device_tensor(
            script, call.func.value
        )
        is_torchs = (script.dotted(call.func) or "").startswith("torch.")
        if not (is_method or is_torchs) or name.endswith("_") or _DRAWING.search(name):
            return False
    return True
