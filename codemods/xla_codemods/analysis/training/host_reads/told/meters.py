"""Meters: `losses.update(loss.item(), n)` of a class of this file, of another module's, of timm, or of a dict of meters."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from ....nodes import walk
from ....syntax import argument_for
from ..blocked import Blocked
from ..formatted import is_formatted, made_by
from ..functions import may_be_another
from ..names.bound import (
    Owner,
    attribute_stores,
    class_of,
    is_owner,
    refuse_shown_meter,
    stores_and_loads,
)
from ..texts import is_printed
from ..trail import Arriving, HandedTo, Measured, Trail
from .elsewhere import class_elsewhere, method_of, no_others_use

if TYPE_CHECKING:
    from ....scopes import FunctionNode, Scope
    from ....script import Script

_OF_TIMM = frozenset({"timm.utils.AverageMeter", "timm.utils.metrics.AverageMeter"})
Follow = Callable[[Trail, "FunctionNode", str], None]


class MeterElsewhere(NamedTuple):
    """An object of a class of another module, whose `method` takes a number for its `parameter`."""

    owner: ast.expr
    home: Script
    definition: ast.ClassDef
    method: ast.FunctionDef
    parameter: str


def metered(
    trail: Trail, call: ast.Call, follow: Follow
) -> Iterator[HandedTo | Measured | Arriving]:
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
    elif meter := meter_elsewhere(script, call.args[0]):
        yield from metered_elsewhere(trail, meter, follow)
        return
    else:
        raise Blocked(f"what `{ast.unparse(call.func)}` does with it is not known here")
    refuse_shown_meter(script, owner, trail.always, is_own=method is not None)


def meter_elsewhere(script: Script, node: ast.AST) -> MeterElsewhere | None:
    """The meter of another module's class that is told `node`: `average.add(node)`, `average(node)`, `average.update(val=node)`."""
    parent = script.parent(node)
    call = script.parent(parent) if isinstance(parent, ast.keyword) else parent
    if not isinstance(call, ast.Call) or call.func is node:
        return None
    is_method = isinstance(call.func, ast.Attribute)
    owner, name = (call.func.value, call.func.attr) if is_method else (call.func, "__call__")  # type: ignore[attr-defined]
    found = class_elsewhere(script, made_by(script, owner))
    method = method_of(found[1], name) if found is not None else None
    if found is None or method is None:
        return None
    for argument in (*method.args.posonlyargs, *method.args.args, *method.args.kwonlyargs)[1:]:
        if argument_for(argument.arg, method, call, skip_self=True) is node:
            return MeterElsewhere(owner, *found, method, argument.arg)
    return None


def metered_elsewhere(
    trail: Trail, meter: MeterElsewhere, follow: Follow
) -> Iterator[Measured | Arriving]:
    """The number is followed in the class of another module, and here, through the attributes and methods of `meter`."""
    if not trail.is_new((ast.unparse(meter.owner), meter.method, meter.parameter)):
        return
    uses = _uses_of_its_own(trail, meter) if _is_by_itself(meter) else None
    inner = Trail(meter.home, _always(trail, meter, uses or []), importers_known=True)
    inner.meter = meter.definition
    follow(inner, meter.method, meter.parameter)
    if inner.changes:
        raise Blocked(f"`{meter.home.path}` asks for Python's own number")
    attributes = {name for name in inner.names if isinstance(name, str)}
    getters = {function.name for function in inner.getters}
    if uses is not None and _are_only_formatted(meter, getters):
        yield from _given_back(trail, uses, attributes, getters)
        return
    if getters:
        raise Blocked(f"`{ast.unparse(meter.owner)}`, which it goes into, is handed on")
    if attributes:
        no_others_use(trail.script, meter.home.path, sorted(attributes))
    for name in attributes:
        yield Measured(meter.owner, name)
    refuse_shown_meter(trail.script, meter.owner, trail.always, is_own=False)


def _always(trail: Trail, meter: MeterElsewhere, uses: list[Owner]) -> frozenset[ast.AST]:
    """What runs in every step of the meter's class: the methods that are called there, and those which they call."""
    called = {meter.method.name}
    for load in uses:
        parent = trail.script.parent(load)
        if load in trail.always:
            called.add(parent.attr if isinstance(parent, ast.Attribute) else "__call__")
    work, found = list(called), set[ast.AST]()
    while work:
        name = work.pop()
        for node in (n for f in meter.definition.body if _is_called(f, name) for n in walk(f)):
            found.add(node)
            if isinstance(node, ast.Attribute) and node.attr not in called:
                called.add(node.attr)
                work.append(node.attr)
    return frozenset(found)


def _is_called(statement: ast.stmt, name: str) -> bool:
    return isinstance(statement, ast.FunctionDef) and statement.name == name


def _uses_of_its_own(trail: Trail, meter: MeterElsewhere) -> list[Owner] | None:
    """Where `meter` is read, if this module keeps it to itself: it asks for attributes and calls methods, and prints it."""
    script, owner = trail.script, meter.owner
    if not is_owner(owner, script) or _is_called_itself(script, owner):
        return None
    try:
        _, stored, loads = stores_and_loads(script, owner, is_known=False)
    except Blocked:
        return None
    for made in stored:
        match script.parent(made) if made is not None else None:
            case ast.Assign(targets=[_]) | ast.AnnAssign():
                pass
            case _:
                return None
    for load in loads:
        parent = script.parent(load)
        is_called = isinstance(parent, ast.Call) and parent.func is load
        if not (isinstance(parent, ast.Attribute) or is_called or is_printed(script, load)):
            return None
    return loads


def _is_called_itself(script: Script, owner: Owner) -> bool:
    """`self.meter()`, which is taken for a method elsewhere."""
    return isinstance(owner, ast.Attribute) and any(
        isinstance(call.func, ast.Attribute) for call, _ in script.index.calls_of(owner.attr)
    )


def _given_back(
    trail: Trail, uses: list[Owner], attributes: set[str], getters: set[str]
) -> Iterator[Arriving]:
    """What a meter's attributes and methods give at its `uses`."""
    script = trail.script
    for load in uses:
        parent = script.parent(load)
        match parent:
            case ast.Attribute(attr=name) if name in getters:
                call = script.parent(parent)
                if not isinstance(call, ast.Call) or call.func is not parent:
                    raise Blocked(f"`{ast.unparse(parent)}`, which gives it, is handed on")
                yield Arriving(call)
            case ast.Attribute(attr=name):
                if name in attributes and isinstance(parent.ctx, ast.Load):
                    yield Arriving(parent)
            case ast.Call() if parent.func is load:
                if "__call__" in getters:
                    yield Arriving(parent)
            case _:
                if load in trail.always:
                    raise Blocked(f"`{ast.unparse(load)}` is shown in every step")


def _is_by_itself(meter: MeterElsewhere) -> bool:
    """True if its class derives from no other, and hands no object of its own on."""
    definition, home = meter.definition, meter.home
    if any(ast.unparse(base) != "object" for base in definition.bases):
        return False
    if definition.keywords or definition.decorator_list:
        return False
    names = [node for node in walk(definition) if isinstance(node, ast.Name)]
    return all(
        node.id != "super" and (node.id != "self" or isinstance(home.parent(node), ast.Attribute))
        for node in names
    )


def _are_only_formatted(meter: MeterElsewhere, getters: set[str]) -> bool:
    """True if its class only formats what its own methods `getters` give."""
    for node in walk(meter.definition):
        match node:
            case ast.Attribute(value=ast.Name(id="self"), attr=name) if name in getters:
                call = meter.home.parent(node)
                if call is None or not is_formatted(meter.home, call):
                    return False
    return True


def _method_of_entries(script: Script, owner: ast.Subscript, name: str) -> FunctionNode | None:
    """The method of the class of this file that all entries of a dict are of: `self.meters[key].update`."""
    holder = owner.value
    holding = class_of(script, holder) if isinstance(holder, ast.Attribute) else None
    if not isinstance(holder, ast.Attribute) or holding is None:
        return None
    definitions = {
        _class_of_entries(script, made) for made in attribute_stores(script, holder.attr, holding)
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
        texts += [modules.text(p) for p in modules.with_word(method) if p != script.project.path]
    calls = [m for text in texts for m in re.finditer(rf"\.{method}\((?:[^\n]*\n?){{2}}", text)]
    return bool(calls) and all(f"{made}(" in call.group() for call in calls)
