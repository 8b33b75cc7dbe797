"""Meters: `losses.update(loss.item(), n)` of a class of this file, of another module's, of timm, or of a dict of meters."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from ....nodes import walk
from ..blocked import Blocked
from ..formatted import made_by
from ..functions import may_be_another
from ..names import attribute_stores, class_of, refuse_shown_meter
from ..trail import HandedTo, Measured, Trail
from .elsewhere import class_elsewhere, method_of, no_others_use

if TYPE_CHECKING:
    from ....scopes import FunctionNode, Scope
    from ....script import Script

_OF_TIMM = frozenset({"timm.utils.AverageMeter", "timm.utils.metrics.AverageMeter"})
Follow = Callable[[Trail, "FunctionNode", str], None]


def metered(trail: Trail, call: ast.Call, follow: Follow) -> Iterator[HandedTo | Measured]:
    """Who gets the first argument of `call`; `follow` follows a parameter in another module."""
    assert isinstance(call.func, ast.Attribute)
    script, owner = trail.script, call.func.value
    method = script.local_method(call.func, script.index.scope(call))
    if method is None and isinstance(owner, ast.Subscript):
        method = _method_of_entries(script, owner, call.func.attr)
    if method is not None:
        if may_be_another(script, call.func, method):
            raise Blocked(f"`{ast.unparse(call.func)}` may be another's")
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


def _method_of_entries(script: Script, owner: ast.Subscript, name: str) -> FunctionNode | None:
    """The method of the class of this file that all entries of a dict are of: `self.meters[key].update`."""
    holder = owner.value
    if not (isinstance(holder, ast.Attribute) and class_of(script, holder)):
        return None
    definitions = {
        _class_of_entries(script, made) for made in attribute_stores(script, holder.attr)
    }
    definition = definitions.pop() if len(definitions) == 1 else None
    if definition is None:
        return None
    for node, scope in script.index.of(ast.Subscript):
        if isinstance(node.ctx, ast.Store) and getattr(node.value, "attr", "") == holder.attr:
            statement = script.parent(node)
            value = statement.value if isinstance(statement, ast.Assign) else None
            if value is None or not _is_made_of(script, value, scope, definition):
                return None
    found = script.inference.method(definition, name)
    return found[0] if found else None


def _class_of_entries(script: Script, made: ast.expr | None) -> ast.ClassDef | None:
    """`Meter`, of `defaultdict(Meter)`."""
    match made:
        case ast.Call(
            func=ast.Name(id="defaultdict") | ast.Attribute(attr="defaultdict"), args=[kind]
        ):
            definition = script.value(kind).definition
            return definition if isinstance(definition, ast.ClassDef) else None
    return None


def _is_made_of(script: Script, value: ast.expr, scope: Scope, definition: ast.ClassDef) -> bool:
    """True if `value` is such an object, also as a parameter for which every caller of the project gives one."""
    if script.value(value, scope).definition is definition:
        return True
    function = scope.node
    if not isinstance(value, ast.Name) or not isinstance(
        function, (ast.FunctionDef, ast.AsyncFunctionDef)
    ):
        return False
    if [b.how for b in scope.bindings.get(value.id, ())] != ["parameter"]:
        return False
    return _is_called_with(script, function.name, definition.name)


def _is_called_with(script: Script, method: str, made: str) -> bool:
    """True if all calls of `method`, here and in the project, have `made(` in their line, or the one below."""
    texts = [script.source.text]
    if script.project is not None:
        modules = script.project.modules
        texts += [
            modules.text(p) for p in modules.having((f".{method}",)) if p != script.project.path
        ]
    calls = [m for text in texts for m in re.finditer(rf"\.{method}\((?:[^\n]*\n?){{2}}", text)]
    return bool(calls) and all(f"{made}(" in call.group() for call in calls)
