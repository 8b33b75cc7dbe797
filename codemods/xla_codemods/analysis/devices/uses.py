"""The uses of a parameter that may be a device: a move, a further call, or a calculation with a number."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import NamedTuple

from ...flow.closure import without_fault
from ..index import Index
from ..inference.library_types import RUNTIME
from ..projects.callees import Callees, Target, filled, scope_of
from ..scopes import Scope, resolve

# Calls that take a device of any spelling: their arguments are not changed.
_TAKES_ANY = frozenset(
    {
        "torch.cuda.device",
        "torch.cuda.set_device",
        "torch.device",
        *(
            f"{RUNTIME}.{name}"
            for name in ("device_index", "is_accelerator", "set_device", "xla_device")
        ),
    }
)
MOVES = frozenset({"to", "to_empty"})
_MAKES = ("new_", "rand_like", "to")


class DeviceUse(NamedTuple):
    """One read of a parameter. `moves`: it is used as a device; `call`: a function that it is passed to."""

    node: ast.Name
    moves: bool = False
    harmless: bool = False
    call: ast.Call | None = None


def _use(node: ast.Name, parents: Mapping[ast.AST, ast.AST], scope: Scope) -> DeviceUse:
    parent = parents.get(node)
    match parent:
        case ast.Compare(left=left, comparators=[other]):
            value = other if left is node else left
            is_text = isinstance(value, ast.Constant) and isinstance(value.value, (str, type(None)))
            return DeviceUse(node, harmless=is_text)
        case ast.keyword():
            call = parents.get(parent)
            if isinstance(call, ast.Call):
                if parent.arg == "device" and makes_tensors(call, scope):
                    return DeviceUse(node, moves=True)
                return _handed(node, call, scope)
        case ast.Call(func=ast.Attribute(attr=attr), args=[first, *_]) if first is node:
            if attr in MOVES and resolve(parent.func, scope) is None:
                return DeviceUse(node, moves=True)
            return _handed(node, parent, scope)
        case ast.Call() if parent.func is not node:
            return _handed(node, parent, scope)
    return DeviceUse(node)


def _handed(node: ast.Name, call: ast.Call, scope: Scope) -> DeviceUse:
    dotted = resolve(call.func, scope) or ""
    if dotted in _TAKES_ANY or _is_cuda(call, node):
        return DeviceUse(node, harmless=True)
    return DeviceUse(node, call=call)


def _is_cuda(call: ast.Call, node: ast.Name) -> bool:
    """`x.cuda(device)`, which is rewritten to take any."""
    return isinstance(call.func, ast.Attribute) and call.func.attr == "cuda" and node in call.args


def makes_tensors(call: ast.Call, scope: Scope) -> bool:
    """`torch.zeros(2, device=...)`, `x.new_zeros(2, device=...)`, `x.to(device=...)`."""
    dotted = resolve(call.func, scope)
    if dotted is not None:
        return dotted.startswith("torch.") and not dotted.startswith(("torch.cuda.", "torch.accel"))
    return isinstance(call.func, ast.Attribute) and call.func.attr.startswith(_MAKES)


class MovedTo:
    """The parameters that functions move to, and do nothing else with."""

    def __init__(self, callees: Callees) -> None:
        self.callees = callees

    def only(self, target: Target, name: str) -> bool:
        """True if `target`, and all that it passes its parameter `name` to, move to it, and do nothing else with it."""
        return without_fault([(target, name)], lambda parameter: self._receivers(*parameter))

    def _receivers(self, target: Target, name: str) -> list[tuple[Target, str]] | None:
        """Return the parameters that receive `name`; None if something else is done with it than moving to it."""
        index, scope = target.home, scope_of(target)
        receivers, moves = [], False
        for node in index.names_below(target.function, name):
            use = _use(node, index.parents, scope)
            receiver = self._receiver(target, use)
            if receiver is not None:
                receivers.append(receiver)
            elif not (use.moves or use.harmless):  # also a new binding of the name
                return None
            moves = moves or use.moves
        # What is only given to calls that take any device is content with a number.
        return receivers if moves or receivers else None

    def _receiver(self, target: Target, use: DeviceUse) -> tuple[Target, str] | None:
        """Return the parameter of another function that receives the parameter by `use`."""
        handed = use.call and self.callees.handed(target.home, use.call)
        if not handed or handed.target is None or handed.later:
            return None
        names = (n for n, argument in filled(handed, handed.target) if argument is use.node)
        name = next(names, None)
        return (handed.target, name) if name is not None else None


def is_calculated_with(index: Index, device: ast.expr) -> bool:
    """True if something else than a device would fail or change the meaning there: `if device < 0:`, `device + 1`.

    `device` is a name, attribute or subscript.
    """
    uses = [*index.same(device)] if isinstance(device, ast.Name) else index.spelled(device)
    return any(_is_operand(index.parents.get(use)) for use in uses)


def _is_operand(around: ast.AST | None) -> bool:
    if isinstance(around, ast.Compare):
        return any(map(_is_number, (around.left, *around.comparators)))
    return isinstance(around, (ast.AugAssign, ast.BinOp)) or (
        isinstance(around, ast.UnaryOp) and not isinstance(around.op, ast.Not)
    )


def _is_number(node: ast.expr) -> bool:
    if isinstance(node, ast.UnaryOp):
        node = node.operand
    return isinstance(node, ast.Constant) and type(node.value) is int
