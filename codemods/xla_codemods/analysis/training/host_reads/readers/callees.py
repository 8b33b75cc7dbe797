"""The function of the program that takes an argument, and the parameter that takes it."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, NamedTuple

from ....scopes import FunctionNode
from ....syntax import parameter_for
from ..formatted import made_by
from ..functions import keywords_of, parameter, takes_values
from .cells import attribute_stores, class_of
from .modules import class_elsewhere, method_of

if TYPE_CHECKING:
    from ....script import Script

_OF_TIMM = frozenset({"timm.utils.AverageMeter", "timm.utils.metrics.AverageMeter"})


class Taker(NamedTuple):
    """The parameter `name` of `function` of `script`, and the object `owner` whose method it is."""

    script: Script
    function: FunctionNode
    name: str
    owner: ast.expr | None


def passed_to(script: Script, node: ast.expr) -> Taker | tuple[str, ...] | None:
    """Return the parameter that takes the argument `node`, or the attributes of timm's meter that it becomes.

    None if the function is not known.
    """
    parent = script.parent(node)
    call = script.parent(parent) if isinstance(parent, ast.keyword) else parent
    if not isinstance(call, ast.Call) or call.func is node:
        return None
    func = call.func
    owner = func.value if isinstance(func, ast.Attribute) else None
    found = keywords_of(script, call, node) if isinstance(parent, ast.keyword) else None
    found = found or parameter(script, call, node)
    if found is not None:
        if not takes_values(script, *found):
            return None
        return Taker(script, *found, owner)
    if owner is None:
        return _of_object(script, func, "__call__", call, node)
    if isinstance(func, ast.Attribute) and func.attr == "update":
        if made_by(script, owner) in _OF_TIMM:
            return ("val", "avg", "sum")
        if isinstance(owner, ast.Subscript):
            return _of_entries(script, owner, call, node)
    return _of_object(script, owner, func.attr, call, node)  # type: ignore[attr-defined]


def _of_object(
    script: Script, owner: ast.expr, name: str, call: ast.Call, node: ast.expr
) -> Taker | None:
    """`average.add(node)`, `average(node)`: of an object whose class stands in another module."""
    found = class_elsewhere(script, made_by(script, owner))
    method = method_of(found[1], name) if found is not None else None
    if found is None or method is None:
        return None
    return _taking(found[0], method, call, node, owner)


def _taking(
    home: Script, method: ast.FunctionDef, call: ast.Call, node: ast.expr, owner: ast.expr
) -> Taker | None:
    name = parameter_for(node, method, call, skip_self=True)
    return Taker(home, method, name, owner) if name is not None else None


def _of_entries(
    script: Script, owner: ast.Subscript, call: ast.Call, node: ast.expr
) -> Taker | None:
    """`self.meters[key].update(node)`, of a `defaultdict(Meter)`."""
    holder = owner.value
    definition = class_of(script, holder) if isinstance(holder, ast.Attribute) else None
    if not isinstance(holder, ast.Attribute) or definition is None:
        return None
    for made in attribute_stores(script, holder.attr, definition):
        match made:
            case ast.Call(
                func=ast.Name(id="defaultdict") | ast.Attribute(attr="defaultdict"), args=[kind]
            ):
                meter = script.value(kind).definition
                method = method_of(meter, "update") if isinstance(meter, ast.ClassDef) else None
                return _taking(script, method, call, node, holder) if method else None
    return None
