"""Follow a value read from the device to the code of the file that uses it.

The read becomes `xla.item(loss)`, a deferred number, which resolves itself when Python needs its
value. So only uses in every step have to be known: calls that show the value there run later
(`xla.later`), and the read stays if a use decides something or may pass the value to unknown code.
Outside of steps, unknown code gets Python's own number (`xla.arrived`).
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from typing import NamedTuple

from ....flow.closure import reach
from ...inference.values import ARRAY, TENSOR
from ...nodes import walk
from ...script import Script
from ...syntax import root_of
from .computing import (
    is_caught,
    is_function_of_numbers,
    is_of_tensors,
    is_printed,
    kept_extreme,
    number_around,
    text_around,
)
from .deferral import Deferral
from .filling import fill
from .formatted import is_a_number, is_formatted, is_only_formatted, is_text, leads_to, obstacle_of
from .functions import Taker, callers_of, kept_by, method_of, only_keeps, passed_to
from .holders import (
    Owner,
    attributes_read,
    class_of,
    is_a_dict,
    is_container,
    is_owner,
    is_read_elsewhere,
    is_shared,
    key_of,
    part_of,
    reads_of,
    stored_in,
)
from .read_numbers import is_added_on_the_device
from .showing import defer_condition, is_host_value, log_later, show_tensors
from .sinks import is_shown_on_a_console, shown_to

_ARITHMETIC = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod, ast.Pow)
_FAILING = (ast.Div, ast.FloorDiv, ast.Mod, ast.Pow)
_LITERALS = (ast.Tuple, ast.List, ast.Dict, ast.ListComp, ast.DictComp)
_ADDING = frozenset({"add", "append", "appendleft", "extend", "insert", "update"})
_IN_PLACE = frozenset({*_ADDING, "clear"})


class ValueUse(NamedTuple):
    """An expression that gives the value, or a list, dict or tuple that holds it.

    `position` is where in a tuple, with its length. `is_holder`: the node is a name or attribute of
    a list or dict that holds the value, and all reads of it are followed.
    """

    node: ast.expr
    is_text: bool = False
    position: tuple[int, int] | None = None
    is_holder: bool = False


def follow_number(deferral: Deferral, node: ast.expr) -> None:
    """Follow the number that `node` gives."""
    _follow(deferral, [ValueUse(node)])


def follow_tensors(deferral: Deferral, read: ast.AST, tensors: list[ast.expr]) -> None:
    """Follow the text or array that `read`, a call or formatting, makes of `tensors`."""
    script = deferral.script
    if show_tensors(deferral, read, tensors):
        return
    texts: list[ValueUse] | None = None
    if is_host_value(read, script):
        texts = _text(deferral, read, [read])
        deferral.read.add(read)
    elif tensors and is_a_number(script, read, tensors):
        texts = _text(deferral, tensors[0], tensors)
    if texts is None:
        deferral.refuse(obstacle_of(script, read, script.statement(read)))
    else:
        _follow(deferral, texts)


def _follow(deferral: Deferral, start: list[ValueUse]) -> None:
    reach(start, lambda use: _next(deferral, use), lambda _: bool(deferral.obstacle))


def _next(deferral: Deferral, use: ValueUse) -> list[ValueUse]:
    if use.is_holder:
        return _held(deferral, use)
    script, node, is_text_ = deferral.script, use.node, use.is_text
    in_steps = node in deferral.always
    inner, parent, position = node, script.parent(node), use.position
    while True:  # up to what is computed of the value
        match parent:
            case ast.BinOp(op=op, left=left, right=right) if isinstance(op, _operators(is_text_)):
                if node is not left and is_text(left):
                    break
                if isinstance(op, _FAILING) and is_caught(script, parent):
                    return _resolve(deferral, use, "exceptions of its arithmetic are caught")
                if is_of_tensors(script, right if node is left else left):
                    return _resolve(deferral, use, "it is computed with a tensor or array")
            case ast.Call() if in_steps and not is_text_ and _is_computed(script, parent):
                deferral.computed.add(parent)
            case ast.UnaryOp(op=ast.USub() | ast.UAdd() | ast.Invert()):
                pass
            case ast.IfExp(test=test) if node is not test:
                pass
            case _ if in_steps and isinstance(parent, _LITERALS):
                position = _position(parent, node)
                node, parent = parent, script.parent(parent)
                continue
            case _:
                break
        inner = node = parent
        parent = script.parent(node)
    if node is use.node and (elements := _elements(script, use, parent)) is not None:
        return elements
    if not in_steps:
        return _now_and_then(deferral, use, node, parent)
    return _in_steps(deferral, use._replace(position=position), inner, node, parent)


def _operators(is_text: bool) -> tuple[type[ast.operator], ...]:
    return (ast.Add,) if is_text else _ARITHMETIC


def _is_computed(script: Script, call: ast.Call) -> bool:
    """Return True for a function of numbers whose result is stored: `best = min(best, value)`."""
    match script.statement(call):
        case ast.Expr(value=ast.Call(func=ast.Attribute(attr="append" | "update"))):
            return is_function_of_numbers(script, call)
        case ast.Assign() | ast.AnnAssign() | ast.AugAssign() | ast.Return():
            return is_function_of_numbers(script, call)
    return False


def _position(literal: ast.expr, node: ast.expr) -> tuple[int, int] | None:
    if not isinstance(literal, ast.Tuple) or any(isinstance(e, ast.Starred) for e in literal.elts):
        return None
    return literal.elts.index(node), len(literal.elts)


def _elements(script: Script, use: ValueUse, parent: ast.AST | None) -> list[ValueUse] | None:
    """Return what `parent` takes out of the container; None if it does something else."""
    match parent:
        case ast.Subscript(value=owner, slice=at) if owner is use.node:
            if not isinstance(parent.ctx, ast.Load):
                return []
            if isinstance(at, ast.Slice):
                return None
            found = at.value if isinstance(at, ast.Constant) else None
            place, length = use.position or (0, 0)
            is_other = length and isinstance(found, int) and found % length != place
            return [] if is_other else [ValueUse(parent, use.is_text)]
        case ast.Attribute(attr=name):
            call = script.parent(parent)
            if not isinstance(call, ast.Call) or call.func is not parent:
                return None
            if name == "keys":
                return []
            if name in {"get", "pop"}:
                return [ValueUse(call, use.is_text)]
            is_changed = name in _IN_PLACE and isinstance(script.parent(call), ast.Expr)
            return [] if is_changed else None
        case ast.Call(func=ast.Name(id="len")) | ast.Expr():
            return []
        case ast.Compare(ops=[ast.In() | ast.NotIn()], comparators=[owner]) | (
            ast.comprehension(iter=owner)
            | ast.For(iter=owner)
            | ast.Call(func=ast.Name(id="enumerate" | "list" | "sorted"), args=[owner])
        ) if owner is use.node and is_a_dict(script, owner):
            return []  # these look at the keys
        case ast.Compare(ops=[ast.Is() | ast.IsNot()], comparators=[ast.Constant(value=None)]):
            return []
    return None


def _now_and_then(
    deferral: Deferral, use: ValueUse, node: ast.expr, parent: ast.AST | None
) -> list[ValueUse]:
    """A use outside of steps: showing resolves the number, unknown code gets Python's own."""
    script, statement = deferral.script, deferral.script.statement(use.node)
    call = statement.value if isinstance(statement, ast.Expr) else None
    if is_printed(script, node) if use.is_text else is_formatted(script, node):
        return []
    if not use.is_text and isinstance(call, ast.Call) and leads_to(script, node, call):
        if is_shown_on_a_console(script, call) and is_only_formatted(script, node, call):
            return []
    target: ast.expr | None = None
    match parent:
        case ast.Assign(targets=[ast.Tuple() as targets]) if use.position:
            target = part_of(targets, *use.position)
        case ast.Assign(targets=[target]) | ast.AugAssign(target=target):
            pass
    if target is not None and _is_read_now_and_then(deferral, target):
        return _loads(deferral, target, use.is_text)
    return _resolve(deferral, use, "")


def _is_read_now_and_then(deferral: Deferral, target: ast.expr) -> bool:
    script = deferral.script
    if isinstance(target, ast.Name):
        scope = script.index.scope(target)
        found: Iterable[ast.AST] = script.index.reads_of(scope, target.id)
        return not is_shared(script, target) and deferral.always.isdisjoint(found)
    if not (isinstance(target, ast.Attribute) and class_of(script, target) is not None):
        return False
    return deferral.always.isdisjoint(attributes_read(script, target.attr))


def _resolve(deferral: Deferral, use: ValueUse, why: str) -> list[ValueUse]:
    """Python's own number is needed: outside of steps the script may wait for it."""
    if use.node in deferral.always:
        deferral.refuse(why)
    else:
        deferral.arrived.add(use.node)
    return []


def _in_steps(
    deferral: Deferral, use: ValueUse, inner: ast.expr, node: ast.expr, parent: ast.AST | None
) -> list[ValueUse]:
    script, is_text_ = deferral.script, use.is_text
    if not is_text_ and (kept := kept_by(script, node)) is not None:
        return _uses_of_object(deferral, *kept)
    match parent:
        case ast.Assign(targets=[target]) | ast.AnnAssign(target=target) if parent.value is node:
            return _stored(deferral, use, target)
        case ast.AugAssign(target=ast.Subscript() as target, op=ast.Add()) if (
            is_added_on_the_device(script, node, use.node, target)
        ):
            deferral.on_device.add(use.node)
            return []
        case ast.AugAssign(target=target, op=op) if isinstance(op, _operators(is_text_)):
            return _stored(deferral, use, target)
        case ast.Return():
            return _returned(deferral, use, parent)
        case ast.Compare() if not is_text_ and (found := kept_extreme(script, parent)):
            statement, spelled, value = found
            deferral.extremes[statement] = (spelled, value)
            if isinstance(value, ast.Call):
                deferral.read.add(value)
            (target,) = statement.body[0].targets  # type: ignore[attr-defined]
            return _loads(deferral, target, is_text_)
        case ast.Call(func=ast.Name(id="isinstance"), args=[first, kind]) if first is node:
            if not (script.dotted(kind) or "").startswith("torch.") and (
                is_text_ or deferral.computed
            ):
                deferral.refuse("its type is tested")
            return []
        case ast.Call(func=ast.Attribute(attr=name, value=owner)) if (
            name in _ADDING and parent.args[-1:] == [node]
        ):
            root = root_of(owner, ast.Subscript)
            if not passed_to(script, node) and is_owner(root, script):
                if all(map(is_container, stored_in(script, root))):
                    if not isinstance(script.parent(parent), ast.Expr):
                        deferral.refuse(f"the result of `{name}` is used")
                    return [ValueUse(root, is_text_, is_holder=True)]
    if (loop := _loop_over(script, node, parent)) is not None:
        return _iterated(deferral, use, *loop)
    if (taker := passed_to(script, node)) is not None:
        return _taken(deferral, taker, is_text_)
    return _show(deferral, use, inner, node)


def _loop_over(
    script: Script, node: ast.expr, parent: ast.AST | None
) -> tuple[ast.For, ast.expr | None] | None:
    """Return the loop over the container `node`, its items or values, and the target of each."""
    child, outer, is_pair = node, parent, False
    if isinstance(parent, ast.Attribute) and parent.attr in {"items", "values"}:
        call = script.parent(parent)
        if not isinstance(call, ast.Call):
            return None
        child, outer, is_pair = call, script.parent(call), parent.attr == "items"
    if isinstance(outer, ast.Call) and getattr(outer.func, "id", "") in {"enumerate", "list"}:
        is_pair = is_pair or getattr(outer.func, "id", "") == "enumerate"
        child, outer = outer, script.parent(outer)
    if not isinstance(outer, ast.For) or outer.iter is not child:
        return None
    return outer, part_of(outer.target, 1, 2) if is_pair else outer.target


def _iterated(
    deferral: Deferral, use: ValueUse, loop: ast.For, target: ast.expr | None
) -> list[ValueUse]:
    if not isinstance(target, ast.Name):
        deferral.refuse(f"`{ast.unparse(loop.target)}` unpacks it")
        return []
    return _loads(deferral, target, use.is_text, loop)


def _taken(deferral: Deferral, taker: Taker, is_text: bool) -> list[ValueUse]:
    """Return the reads of the parameter that takes the value."""
    script, (function, name) = deferral.script, taker
    scope = script.inference.scopes[function]
    deferral.shared.add((scope, name))
    deferral.always = deferral.always | {*walk(function)}
    first = scope.bindings.get(name, [])[:1]
    loads = script.index.reads_of(scope, name)
    return [
        ValueUse(load, is_text) for load in loads if any(b in first for b in script.reaching(load))
    ]


def _uses_of_object(
    deferral: Deferral, owner: ast.expr, definition: ast.ClassDef | None
) -> list[ValueUse]:
    """Return what the file reads of a meter: `meter.avg`, `meter.mean()`."""
    script, found = deferral.script, list[ValueUse]()
    if not isinstance(owner, (ast.Name, ast.Attribute)):
        return []
    deferral.shared.add(key_of(script, owner))
    bindings = script.reaching(owner) if isinstance(owner, ast.Name) else []
    for read in reads_of(script, owner, bindings):
        parent = script.parent(read)
        call = script.parent(parent) if isinstance(parent, ast.Attribute) else parent
        name = parent.attr if isinstance(parent, ast.Attribute) else "__call__"
        if isinstance(call, ast.Call) and call.func in (read, parent):
            method = method_of(definition, name) if definition is not None else None
            if not isinstance(script.parent(call), ast.Expr):
                if method is None or any(isinstance(n, ast.Return) for n in walk(method)):
                    found.append(ValueUse(call))
            elif read in deferral.always and definition and not only_keeps(definition, name):
                deferral.refuse(f"`{ast.unparse(call.func)}` may need it in every step")
        elif isinstance(parent, ast.Attribute):
            if definition is None or method_of(definition, name) is None:
                found.append(ValueUse(parent))
        elif read in deferral.always and not isinstance(parent, ast.Subscript):
            deferral.refuse(f"`{ast.unparse(owner)}` is printed or passed on in every step")
    return found


def _show(deferral: Deferral, use: ValueUse, inner: ast.expr, node: ast.expr) -> list[ValueUse]:
    """Defer the output call around `node`; refuse if the use decides something or is unknown."""
    script, origin = deferral.script, use.node
    statement = script.statement(origin)
    call = statement.value if isinstance(statement, ast.Expr) else None
    if isinstance(call, ast.Call) and leads_to(script, node, call):
        to = shown_to(script, call)
        if to is not None:
            if any(f.has(TENSOR) for f in (script.value(origin).fields or {}).values()):
                deferral.refuse(f"`{ast.unparse(origin)}` also contains tensors")
            part = script.parent(origin)
            is_part = isinstance(part, ast.Subscript) and part.value is origin
            log_later(deferral, call, to, [part if is_part and part else origin])
            return []
    if defer_condition(deferral, statement, [origin]):
        return []
    computed = number_around(script, origin)
    if computed is not None and computed in deferral.always:
        deferral.show(computed, [origin])
        return [ValueUse(computed)]
    texts = _text(deferral, inner, [origin])
    if texts is None:
        deferral.refuse(obstacle_of(script, inner, statement))
    return texts or []


def _text(deferral: Deferral, node: ast.AST, reads: Iterable[ast.AST]) -> list[ValueUse] | None:
    """Return the text that `node` is formatted into in every step."""
    text = text_around(deferral.script, node)
    if text is None or text not in deferral.always:
        return None
    deferral.show(text, [*reads])
    return [ValueUse(text, True)]


def _stored(deferral: Deferral, use: ValueUse, target: ast.expr) -> list[ValueUse]:
    script = deferral.script
    match target:
        case ast.Tuple() | ast.List() if use.position and (part := part_of(target, *use.position)):
            return _stored(deferral, use._replace(position=None), part)
        case ast.Subscript(value=owner) if is_owner(root := root_of(owner, ast.Subscript), script):
            if not script.value(owner).kinds & {TENSOR, ARRAY}:
                return [ValueUse(root, use.is_text, is_holder=True)]
            if not use.is_text:
                fill(deferral, target)
                return []
        case ast.Name() | ast.Attribute() if is_owner(target, script):
            return _loads(deferral, target, use.is_text)
    return _resolve(deferral, use, f"it is stored in `{ast.unparse(target)}`")


def _loads(
    deferral: Deferral, target: ast.expr, is_text: bool, loop: ast.For | None = None
) -> list[ValueUse]:
    """Return the reads of a name or attribute that its statement or `loop` binds to the value."""
    script = deferral.script
    if not isinstance(target, (ast.Name, ast.Attribute)):
        return []
    _share(deferral, target)
    bound = loop or script.statement(target)
    bindings = script.bindings(target) if isinstance(target, ast.Name) else []
    reads = reads_of(script, target, [b for b in bindings if b.node is bound])
    return [ValueUse(read, is_text) for read in reads]


def _held(deferral: Deferral, use: ValueUse) -> list[ValueUse]:
    """Return the reads of a list or dict that holds the value."""
    script, owner = deferral.script, use.node
    assert isinstance(owner, (ast.Name, ast.Attribute))
    if not all(map(is_container, stored_in(script, owner))):
        deferral.refuse(f"`{ast.unparse(owner)}` may be shared with other code")
    _share(deferral, owner)
    bindings = script.reaching(owner) if isinstance(owner, ast.Name) else []
    return [ValueUse(read, use.is_text) for read in reads_of(script, owner, bindings)]


def _share(deferral: Deferral, owner: Owner) -> None:
    """Reads that `owner` holds are edited together."""
    deferral.shared.add(key_of(deferral.script, owner))
    if is_read_elsewhere(deferral.script, owner):
        deferral.refuse(f"other modules read `{ast.unparse(owner)}`")


def _returned(deferral: Deferral, use: ValueUse, statement: ast.Return) -> list[ValueUse]:
    script = deferral.script
    function = script.function(statement)
    if not isinstance(function, ast.FunctionDef) or function.decorator_list:
        deferral.refuse("it is returned")
        return []
    deferral.shared.add(function)
    calls = callers_of(script, function)
    if not calls:
        deferral.refuse(f"`{function.name}` returns it to unknown callers")
    return [ValueUse(call, use.is_text, use.position) for call in calls]
