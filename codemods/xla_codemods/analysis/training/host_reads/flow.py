"""Where a number read in every step goes: names, sums, lists and meters, and who in the end looks at it.

The read becomes `xla.item(loss)`, a number on its way (see the runtime's `deferred`). Arithmetic, names, lists and
meters take it as it is; what shows it in every step is made later; what asks for it now and then gets Python's own
number, by `xla.arrived`. What decides on it in every step, or is not known, blocks.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from typing import TYPE_CHECKING

from ... import flow
from ...inference.values import ARRAY, TENSOR
from ...projects.handed_reads import tensor_behind
from ...scopes import FunctionNode
from ..tensors.device_tensors import is_device_tensor
from ..tensors.handed_tensors import is_tested
from .blocked import Blocked
from .filling import fill
from .formatted import (
    is_a_number,
    is_formatted,
    is_only_formatted,
    is_text,
    leads_to,
    reads_tensors,
    said,
)
from .functions import (
    extreme,
    is_caught,
    is_function_of_numbers,
    is_of_constants,
    is_own_method,
    is_property,
    is_setter,
    parameter,
    takes_values,
)
from .holding import given, in_a_literal, kept_in, kept_in_keywords, kept_in_lists_of, yielded
from .names.bound import (
    attributes_read,
    class_of,
    home,
    is_asked_elsewhere,
    is_owner,
    loads,
    refuse_imported_class,
    refuse_listed_attributes,
)
from .names.callers import callers_of
from .on_device import is_added_on_the_device
from .showing import ask_later, is_host_value, show_tensors, tell_later, telling_call
from .sinks import (
    is_shown_on_a_console,
    is_tracked,
    is_written_to_a_file,
)
from .texts import is_printed, text_around
from .told.elsewhere import is_shown_elsewhere
from .told.meters import meter_elsewhere, metered, metered_elsewhere
from .told.other_callers import given_elsewhere
from .trail import Arriving, Bound, HandedTo, Held, Measured, Next, Returned, Stored, Trail, Used

if TYPE_CHECKING:
    pass

_ARITHMETIC = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod, ast.Pow)
_FAILING = (ast.Div, ast.FloorDiv, ast.Mod, ast.Pow)
_BOUND = frozenset({"assign", "augment", "parameter"})


def _go(trail: Trail, ways: Iterable[Next]) -> None:
    """Follows what `holding` says is next."""
    for way in ways:
        match way:
            case Arriving(node):
                follow_number(trail, node)
            case Bound(name, loop):
                _name(trail, name, loop)
            case Stored(origin, target):
                _stored(trail, origin, target)
            case Returned(origin, statement, held):
                _returned(trail, origin, statement, held)
            case Used(origin, use):
                _used(trail, origin, use)
            case HandedTo(function, parameter):
                _parameter(trail, function, parameter)
            case Measured(place, attribute):
                _attribute(trail, place, attribute)


# A number.


def follow_number(trail: Trail, node: ast.expr) -> None:
    """`node` gives a number on its way. Where that is asked for now and then, and is not known what for, it is waited for."""
    if node in trail.always:
        _follow(trail, node)
    elif not trail.attempt(lambda: _follow(trail, node)):
        trail.wrapped.add(node)


def _follow(trail: Trail, node: ast.expr) -> None:
    origin, parent = node, trail.script.parent(node)
    while True:
        if isinstance(parent, ast.BinOp) and isinstance(parent.op, _of(trail)):
            if node is parent.right and is_text(parent.left):
                return _used(trail, origin, node)
            if isinstance(parent.op, _FAILING) and is_caught(trail.script, parent):
                return trail.ask(origin, "what its arithmetic raises is caught")
            _other_side(trail, parent.right if node is parent.left else parent.left)
        elif isinstance(parent, ast.Call) and _is_computed_later(trail, origin, parent):
            trail.computed.add(parent)
        elif not (
            (isinstance(parent, ast.UnaryOp) and not isinstance(parent.op, ast.Not))
            or (isinstance(parent, ast.IfExp) and node is not parent.test)
        ):
            break
        node, parent = parent, trail.script.parent(parent)
    _used_by(trail, origin, node, parent)


def _of(trail: Trail) -> tuple[type[ast.operator], ...]:
    """What numbers on their way, or texts, are computed with."""
    return (ast.Add,) if trail.is_text else _ARITHMETIC


def _is_computed_later(trail: Trail, origin: ast.expr, call: ast.Call) -> bool:
    """True if `call`, a function of numbers, is kept as a number in every step: `best = min(best, loss.item())`."""
    return (
        origin in trail.always
        and not trail.is_text
        and _is_kept(trail.script.statement(call))
        and is_function_of_numbers(trail.script, call)
    )


def _is_kept(statement: ast.stmt) -> bool:
    """True if `statement` keeps what it computes: in a name, in a list, for its function's caller."""
    match statement:
        case ast.Expr(value=ast.Call(func=ast.Attribute(attr="append" | "update"))):
            return True
    return isinstance(statement, (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Return))


def _used_by(trail: Trail, origin: ast.expr, node: ast.expr, parent: ast.AST | None) -> None:
    """`node`, computed of `origin` by arithmetic alone, is used by `parent`."""
    telling = telling_call(trail, origin)
    if telling is None:
        _goes_on(trail, origin, node, parent)
    elif not trail.attempt(lambda: _goes_on(trail, origin, node, parent)):
        if trail.is_text and not is_owner(origin, trail.script):
            raise Blocked("it is told as it is read")  # as a number, then
        tell_later(trail, telling, [origin])


def _goes_on(trail: Trail, origin: ast.expr, node: ast.expr, parent: ast.AST | None) -> None:
    match parent:
        case ast.Assign(targets=[target]) if parent.value is node:
            _stored(trail, origin, target)
        case ast.AnnAssign(target=target) if parent.value is node:
            _stored(trail, origin, target)
        case ast.AugAssign(target=ast.Subscript() as target, op=ast.Add()) if (
            is_added_on_the_device(trail.script, node, origin, target)
        ):
            trail.on_device.add(origin)
        case ast.AugAssign(target=target, op=op) if isinstance(op, _of(trail)):
            _stored(trail, origin, target)
        case ast.Call(func=ast.Attribute(attr="append", value=owner), args=[_]) if is_owner(
            owner, trail.script
        ) and not is_own_method(trail.script, parent):
            if parent.args != [node]:
                raise Blocked("a list's `append` is asked whether it is there")
            _go(trail, kept_in(trail, owner))
        case ast.Call(
            func=ast.Attribute(attr="append", value=ast.Subscript(value=owner)), args=[_]
        ) if parent.args == [node] and is_owner(owner, trail.script):
            _go(trail, kept_in_lists_of(trail, owner))
        case ast.Call(func=ast.Attribute(attr="update"), args=[first, *_]) if first is node:
            _go(trail, metered(trail, parent, _parameter))
        case ast.Call(func=ast.Name(id="isinstance"), args=[first, kind]) if first is node:
            is_torchs = (trail.script.dotted(kind) or "").startswith("torch.")
            if not is_torchs and (trail.is_text or trail.computed):  # a number knows what it is
                raise Blocked("it is asked what it is")
        case ast.Call() | ast.keyword() if not trail.is_text and (
            meter := meter_elsewhere(trail.script, node)
        ):
            _go(trail, metered_elsewhere(trail, meter, _parameter))
        case ast.Return():
            _returned(trail, origin, parent)
        case ast.Yield() if origin in trail.always:
            _go(trail, yielded(trail, None, parent))
        case ast.Tuple() | ast.List() | ast.Dict() | ast.ListComp() | ast.DictComp() if (
            origin in trail.always
        ):
            _go(trail, in_a_literal(trail, origin, node, parent))
        case ast.Compare(ops=[ast.Is() | ast.IsNot()], comparators=[ast.Constant(value=None)]):
            return
        case ast.Compare() if (
            origin in trail.always
            and not trail.is_text
            and (found := extreme(trail.script, parent))
        ):
            trail.extremes[found.statement] = found
            if isinstance(found.value, ast.Call):
                trail.read.add(found.value)
            for target in (found.target, *(t for s in found.beside for t in s.targets)):
                assert isinstance(target, ast.Name)
                _name(trail, target)
        case _:
            _used(trail, origin, node)


def _other_side(trail: Trail, node: ast.expr) -> None:
    if is_of_constants(trail.script, node):
        return
    value = trail.script.value(node)
    if value.has(TENSOR) or value.has(ARRAY) or is_device_tensor(trail.script, node):
        raise Blocked("it is computed with a tensor or array")


def _stored(trail: Trail, origin: ast.expr, target: ast.expr) -> None:
    match target:
        case ast.Name():
            _name(trail, target)
        case ast.Subscript(value=owner) if is_owner(owner, trail.script):
            if not trail.script.value(owner).kinds & {TENSOR, ARRAY}:
                _go(trail, kept_in(trail, owner))
            elif origin in trail.always and not trail.is_text:
                fill(trail, target)
            else:
                trail.ask(origin, f"it goes into the array `{ast.unparse(owner)}`")
        case ast.Attribute(attr=name) if is_owner(target, trail.script):
            _attribute(trail, target, name)
        case _:
            trail.ask(origin, f"it is kept in `{ast.unparse(target)}`")


# What it is bound to.


def _name(trail: Trail, target: ast.Name, loop: ast.For | None = None) -> None:
    """What a statement, or a `loop` over what holds such numbers, binds it to."""
    scope, bindings, is_shared = home(trail.script, target)
    bound = loop or trail.script.statement(target)
    trail.names.add((scope, target.id))
    if not trail.is_new((scope, target.id, bound)):
        return
    numbers = [b for b in bindings if b.node is bound]
    known = _BOUND | {"for"} if is_tested(trail.script, target) else _BOUND
    for load in loads(trail.script, scope, target.id):
        reaching = bindings
        if not is_shared:
            reaching = flow.reaching(bindings, load, scope, trail.script.parents)
        if not any(binding in numbers for binding in reaching):
            continue
        if any(b.node is not loop and b.how not in known for b in reaching):
            raise Blocked(f"`{target.id}` is other things, too")
        follow_number(trail, load)


# Parameters, and attributes: of meters.


def _parameter(trail: Trail, function: FunctionNode, name: str) -> None:
    scope = trail.script.inference.scopes[function]
    if not trail.is_new((scope, name)):
        return
    for load in loads(trail.script, scope, name):
        follow_number(trail, load)


def _attribute(trail: Trail, place: ast.AST, name: str) -> None:
    """An attribute called `name`, of a class of this file or a meter."""
    definition = class_of(trail.script, place) if isinstance(place, ast.Attribute) else None
    if definition is None:
        around = (a for a in trail.script.ancestors(place) if isinstance(a, ast.ClassDef))
        definition = next(around, None)
    is_meter = isinstance(place, ast.expr) and getattr(place, "attr", "") != name
    if not trail.is_new_attribute(None if is_meter else definition, name):
        return
    if definition is not None:
        if any(map(is_setter, definition.body)):
            raise Blocked(f"`{definition.name}` sets attributes by functions")
        if not trail.importers_known:
            refuse_imported_class(trail.script, definition, name)
        refuse_listed_attributes(trail.script, definition, name)
    for node in attributes_read(trail.script, name, None if is_meter else definition):
        follow_number(trail, node)


# Who looks at it.


def _used(trail: Trail, origin: ast.expr, node: ast.AST) -> None:
    """`node` is formatted, or handed to a call, or anything else."""
    if trail.is_text and origin not in trail.always:
        if not is_printed(trail.script, node):
            trail.wrapped.add(origin)
        return
    statement = trail.script.statement(origin)
    call = statement.value if isinstance(statement, ast.Expr) else None
    if isinstance(call, ast.Call) and leads_to(trail.script, node, call):
        if origin not in trail.always:
            if is_shown_on_a_console(trail.script, call) and is_only_formatted(
                trail.script, node, call
            ):
                return
        elif (
            is_shown_on_a_console(trail.script, call)
            or is_tracked(trail.script, call)
            or is_shown_elsewhere(trail.script, call)
        ):
            trail.later.setdefault(call, set()).add(origin)
            return
        elif _is_handed_to_a_function(trail, node):
            return
        elif is_written_to_a_file(trail.script, call):
            trail.later.setdefault(call, set()).add(origin)
            return
    elif origin in trail.always and _is_handed_to_a_function(trail, node):
        return
    if origin not in trail.always and is_formatted(trail.script, node):
        return
    if origin in trail.always and ask_later(trail, statement, [origin]):
        return
    if origin in trail.always and origin is node and _hands_the_tensor(trail, origin):
        return
    if not _is_put_into_a_text(trail, node, [origin]):
        trail.ask(origin, said(trail.script, node, statement))


def _hands_the_tensor(trail: Trail, number: ast.expr) -> bool:
    """True if a method of another module is handed `number` that reads tensors itself, and can be handed the tensor:
    `metric_logger.update(loss=loss.item())`.
    """
    script = trail.script
    parent = script.parent(number)
    call = script.parent(parent) if isinstance(parent, ast.keyword) else parent
    match call:
        case ast.Call(func=ast.Attribute() as func) if reads_tensors(script, func):
            tensor = tensor_behind(number, script.index.scope(number), script.index)
            if tensor is not None and is_device_tensor(script, tensor):
                trail.handed[number] = tensor
                return True
    return False


def _is_put_into_a_text(trail: Trail, node: ast.AST, read: Iterable[ast.AST]) -> bool:
    """True if `node`, of which `read` are the reads, is formatted in every step, into a text that is followed."""
    text = text_around(trail.script, node)
    if text is None or text not in trail.always:
        return False
    known = text in trail.texts
    trail.texts.setdefault(text, set()).update(read)
    if not known:
        follow_number(trail.of_text(), text)
    return True


def follow_tensors(trail: Trail, read: ast.AST, tensors: list[ast.expr]) -> None:
    """`read` shows `tensors` themselves, in a call or in a text."""
    if show_tensors(trail, read, tensors):
        return
    if is_host_value(read, trail.script) and _is_put_into_a_text(trail, read, [read]):
        trail.read.add(read)
        return
    if tensors and is_a_number(trail.script, read, tensors):
        if _is_put_into_a_text(trail, tensors[0], tensors):
            return
    raise Blocked(said(trail.script, read, trail.script.statement(read)))


def _is_handed_to_a_function(trail: Trail, node: ast.AST) -> bool:
    """True if `node` is an argument of a function of this file, where it is followed: `log(step, loss.item())`."""
    parent = trail.script.parent(node)
    call = trail.script.parent(parent) if isinstance(parent, ast.keyword) else parent
    if not isinstance(call, ast.Call) or call.func is node:
        return False
    if isinstance(parent, ast.keyword):
        ways = kept_in_keywords(trail, call, node)
        if ways is not None:
            _go(trail, ways)
            return True
    found = parameter(trail.script, call, node)
    if found is None or not takes_values(trail.script, *found):
        return False
    _parameter(trail, *found)
    return True


def _returned(
    trail: Trail, origin: ast.expr, statement: ast.Return, held: Held | None = None
) -> None:
    """It is returned, as it is or `held` in a tuple, a list or a dict."""
    function = trail.script.function(statement)
    if function is not None and is_property(function):
        is_asked = not trail.importers_known and is_asked_elsewhere(trail.script, function)
        if origin not in trail.always and is_asked:
            trail.wrapped.add(origin)
        else:
            _attribute(trail, function, function.name)
        return
    if trail.is_given_back(function, held):
        return
    if origin not in trail.always:
        trail.wrapped.add(origin)
        return
    if function is None or function.decorator_list or isinstance(function, ast.AsyncFunctionDef):
        raise Blocked("it is returned")
    trail.names.add(function)
    if not trail.is_new((function, held)):
        return
    calls, elsewhere = callers_of(trail.script, function)
    for use in elsewhere:
        given_elsewhere(trail, use, held, _given)
    for call in calls:
        _given(trail, call, held)


def _given(trail: Trail, call: ast.Call, held: Held | None) -> None:
    """`call` gives it."""
    if held is None and not isinstance(trail.script.parent(call), ast.Expr):
        follow_number(trail, call)
    elif held is not None:
        _go(trail, given(trail, call, held))
