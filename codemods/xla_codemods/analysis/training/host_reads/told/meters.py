"""Meters: `losses.update(loss.item(), n)` of a class of this file, of another module's, of timm, or of a dict of meters."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from ....nodes import walk
from ..blocked import Blocked
from ..formatted import made_by
from ..names import method_of_entries, refuse_shown_meter
from ..trail import HandedTo, Measured, Trail
from .elsewhere import class_elsewhere, method_of, no_others_use

if TYPE_CHECKING:
    from ....scopes import FunctionNode

_OF_TIMM = frozenset({"timm.utils.AverageMeter", "timm.utils.metrics.AverageMeter"})
Follow = Callable[[Trail, "FunctionNode", str], None]


def metered(trail: Trail, call: ast.Call, follow: Follow) -> Iterator[HandedTo | Measured]:
    """Who gets the first argument of `call`; `follow` follows a parameter in another module."""
    assert isinstance(call.func, ast.Attribute)
    script, owner = trail.script, call.func.value
    method = script.local_method(call.func, script.index.scope(call))
    if method is None and isinstance(owner, ast.Subscript):
        method = method_of_entries(script, owner, call.func.attr)
    if method is not None:
        names = [arg.arg for arg in (*method.args.posonlyargs, *method.args.args)][1:]
        if not names or isinstance(call.args[0], ast.Starred):
            raise Blocked(f"`{ast.unparse(call.func)}` takes it in a list")
        yield HandedTo(method, names[0])
    elif made_by(script, owner) in _OF_TIMM:
        yield from (Measured(owner, name) for name in ("val", "avg", "sum"))
    else:
        yield from _metered_elsewhere(trail, call.func, follow)
    refuse_shown_meter(script, owner, trail.always)


def _metered_elsewhere(trail: Trail, func: ast.Attribute, follow: Follow) -> Iterator[Measured]:
    """A meter's class of another module takes it: it is followed there, and through the meter's attributes."""
    found = class_elsewhere(trail.script, made_by(trail.script, func.value))
    method = method_of(found[1], func.attr) if found is not None else None
    if found is None or method is None or len(method.args.args) < 2:
        raise Blocked(f"what `{ast.unparse(func)}` does with it is not known here")
    other = found[0]
    inner = Trail(other, frozenset(walk(method)), importers_known=True)
    follow(inner, method, method.args.args[1].arg)
    if (
        inner.wrapped
        or inner.later
        or inner.computed
        or inner.extremes
        or inner.on_device
        or inner.filled
    ):
        raise Blocked(f"`{other.path}` asks for Python's own number")
    attributes = [name for name in inner.names if isinstance(name, str)]
    if attributes:
        no_others_use(trail.script, other.path, attributes)
    for name in attributes:
        yield Measured(func.value, name)
