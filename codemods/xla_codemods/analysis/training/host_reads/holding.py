"""Lists, dicts and tuples that numbers on their way are kept in: who looks at them, which is where to look next."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ...syntax import walk_body
from .blocked import Blocked
from .computing import number_around
from .formatted import holds_lists, is_container
from .functions import called_function, is_own_method, keywords_of, parameter, takes_values
from .names.bound import Owner, is_owner, loads, part_of, stores_and_loads
from .names.callers import calls_of
from .names.handed_on import refuse_handed_on_before
from .showing import shown_as_it_is
from .texts import text_around
from .trail import Arriving, Bound, Held, Next, Returned, Stored, Trail, Used

if TYPE_CHECKING:
    from ...scopes import FunctionNode
    from ...script import Script

# Methods that add to a container, or take from it, and tell nothing.
_CHANGING = frozenset({"append", "clear", "extend", "update"})
_PARTS = frozenset({"items", "values"})
_TAKING = (
    *(ast.Call, ast.FormattedValue, ast.BinOp, ast.Subscript),
    *(ast.comprehension, ast.For, ast.keyword, ast.Starred),
)


def in_a_literal(
    trail: Trail, origin: ast.expr, node: ast.expr, literal: ast.expr
) -> Iterator[Next]:
    """`stats = {"loss": loss.item()}`, `return loss.item(), correct.item()`, `rows.append((step, loss.item()))`."""
    outer = trail.script.parent(literal)
    is_tuple = isinstance(literal, ast.Tuple)
    match outer:
        case ast.Tuple() | ast.List() | ast.Dict():
            yield from in_a_literal(trail, origin, literal, outer)
        case ast.Assign(targets=[ast.Name() as target]) if not is_tuple:
            yield from kept_in(trail, target)
        case ast.AnnAssign(target=ast.Name() as target) if not is_tuple:
            yield from kept_in(trail, target)
        case ast.AugAssign(target=owner, op=ast.Add()) if isinstance(
            literal, ast.List
        ) and is_owner(owner, trail.script):
            yield from kept_in(trail, owner)
        case ast.BinOp(op=ast.Add()) if longer := _added_to(trail.script, outer, literal):
            yield from kept_in(trail, longer)
        case ast.Assign(targets=[target]) if is_tuple and (
            found := part_of(target, *_place(literal, node))
        ):
            yield Stored(origin, found)
        case ast.Call(func=ast.Attribute(attr="append" | "extend", value=owner), args=[_]) if (
            is_owner(owner, trail.script) and not is_own_method(trail.script, outer)
        ):
            yield from kept_in(trail, owner)
        case ast.Call() | ast.keyword() if taken := _taking(trail.script, literal):
            yield from _kept_in_parameter(trail, *taken)
        case ast.Yield() if is_tuple:
            yield from yielded(trail, Held(*_place(literal, node)), outer)
        case ast.Return():
            held = Held(*_place(literal, node)) if is_tuple else Held()
            yield Returned(origin, outer, held)
        case _:
            yield Used(origin, node)


def _added_to(script: Script, joined: ast.BinOp, literal: ast.expr) -> Owner | None:
    """The list of `losses = losses + [loss.item()]`."""
    other = joined.right if joined.left is literal else joined.left
    match script.parent(joined):
        case ast.Assign(targets=[target]) if isinstance(literal, ast.List) and is_owner(
            other, script
        ):
            return other if ast.unparse(target) == ast.unparse(other) else None
    return None


def given(trail: Trail, call: ast.expr, held: Held) -> Iterator[Next]:
    """`call` gives a tuple, a list or a dict that holds it."""
    parent = trail.script.parent(call)
    match parent:
        case ast.Expr():
            return
        case ast.Return() if call in trail.always:
            yield Returned(call, parent, held)
        case ast.Assign(targets=[ast.Tuple() | ast.List() as target]) if held.length:
            found = part_of(target, held.place, held.length)
            if found is None or (held.is_inside and not is_owner(found, trail.script)):
                raise Blocked("it is returned in a tuple, which is taken apart")
            if held.is_inside:
                assert isinstance(found, (ast.Name, ast.Attribute))
                trail.made.add(call)
                yield from kept_in(trail, found)
            else:
                yield Stored(call, found)
        case ast.Assign(targets=[ast.Name() as target]) if not held.length:
            trail.made.add(call)
            yield from kept_in(trail, target)
        case ast.Subscript(value=owner, slice=ast.Constant(value=key)) if owner is call:
            if held.is_inside:
                yield from _contained_used(trail, parent)
            elif not held.length or (isinstance(key, int) and key % held.length == held.place):
                yield Arriving(parent)
        case _:
            yield Used(call, call)


def yielded(trail: Trail, held: Held | None, statement: ast.Yield) -> Iterator[Next]:
    """`yield loss.item()`, to loops of this file that run in every step: `for step, loss in enumerate(losses(...)):`."""
    function = trail.script.function(statement)
    if function is None or function.decorator_list or isinstance(function, ast.AsyncFunctionDef):
        raise Blocked("it is yielded")
    if not isinstance(trail.script.parent(statement), ast.Expr):
        raise Blocked("it is yielded, to what sends something back")
    for call in calls_of(trail.script, function):
        loop = _iterated(trail.script, call)
        if loop is None:
            raise Blocked(f"`{function.name}` yields it, to what is not a loop of this file")
        trail.also_in_each_turn(loop)
        target: ast.expr | None = loop.target
        if loop.iter is not call:
            target = part_of(loop.target, 1, 2)
        if held is not None and target is not None:
            target = part_of(target, held.place, held.length)
        if not isinstance(target, ast.Name):
            raise Blocked(f"`{function.name}` yields it, and the loop takes it apart")
        yield Bound(target, loop)


def kept_in(trail: Trail, owner: Owner) -> Iterator[Next]:
    """In a list or dict."""
    key, stored, read = stores_and_loads(trail.script, owner, is_known=trail.importers_known)
    if not _is_new(trail, owner, key):
        return
    for value in stored:
        if not (is_container(value) or value in trail.made):
            yield from _made_by_a_function(trail, owner, value)
    for load in read:
        refuse_handed_on_before(trail.script, load, owner)
        yield from _contained_used(trail, load)


def _made_by_a_function(trail: Trail, owner: Owner, value: ast.expr | None) -> Iterator[Next]:
    """`logs = self.losses()`, `loss, logs = self.losses()`, of a function of this file that makes a list or dict each time."""
    script = trail.script
    called = called_function(script, value) if isinstance(value, ast.Call) else None
    unknown = Blocked(f"`{ast.unparse(owner)}` is not known to be a list or dict of its own")
    if called is None or not isinstance(value, ast.Call):
        raise unknown
    trail.made.add(value)
    places: tuple[int, int] | None = None
    match script.parent(value):
        case ast.Assign(targets=[ast.Tuple(elts=parts)]):
            names = [getattr(part, "id", "") for part in parts]
            if not isinstance(owner, ast.Name) or names.count(owner.id) != 1:
                raise unknown
            places = names.index(owner.id), len(names)
    for statement in walk_body(called.body):
        if isinstance(statement, ast.Return):
            given = statement.value
            if places is not None and given is not None:
                given = part_of(given, *places)
            if isinstance(given, ast.Name):
                yield from kept_in(trail, given)
            elif not is_container(given):
                raise unknown


def _is_new(trail: Trail, owner: Owner, key: object) -> bool:
    if isinstance(owner, ast.Attribute):
        trail.names.add(owner.attr)
    return trail.is_new(key)


def kept_in_keywords(trail: Trail, call: ast.Call, node: ast.AST) -> list[Next] | None:
    """`report(loss=loss.item())`, where a function of this file has `**stats`; None where it has not."""
    found = keywords_of(trail.script, call, node)
    return None if found is None else list(_kept_in_parameter(trail, *found))


def _taking(script: Script, node: ast.AST) -> tuple[FunctionNode, str] | None:
    """The function of this file that the list or dict `node` is handed to, and the parameter that takes it."""
    parent = script.parent(node)
    call = script.parent(parent) if isinstance(parent, ast.keyword) else parent
    if not isinstance(call, ast.Call) or call.func is node:
        return None
    found = parameter(script, call, node)
    if found is not None:
        return found if takes_values(script, *found) else None
    is_spread = isinstance(parent, ast.keyword) and parent.arg is None
    return keywords_of(script, call, node) if is_spread else None


def _kept_in_parameter(trail: Trail, function: FunctionNode, name: str) -> Iterator[Next]:
    """A list or dict is handed to `function` as its parameter `name`."""
    scope = trail.script.inference.scopes[function]
    if not trail.is_new((scope, name, "handed")):
        return
    if len(scope.bindings.get(name, ())) != 1:
        raise Blocked(f"`{name}` is other things, too")
    for load in loads(trail.script, scope, name):
        yield from _contained_used(trail, load)


def _contained_used(trail: Trail, load: Owner | ast.Subscript) -> Iterator[Next]:
    """A list or dict is used, by its name or as an entry of another."""
    script = trail.script
    parent = script.parent(load)
    match parent:
        case ast.Attribute(attr=name) if name in _CHANGING:
            if isinstance(script.parent(script.parents[parent]), ast.Expr):
                return
        case ast.Attribute(attr="get" | "pop"):
            call = script.parent(parent)
            if isinstance(call, ast.Call) and call.func is parent:
                yield Arriving(call)
                return
        case ast.Call(func=ast.Name(id="len")):
            return
        case ast.BinOp(op=ast.Add(), left=left, right=right):
            if _added_to(script, parent, right if left is load else left) is load:
                return
        case ast.Subscript(value=owner) if owner is load:
            if isinstance(parent.ctx, ast.Load) and not isinstance(parent.slice, ast.Slice):
                yield Arriving(parent)
                return
            if not isinstance(parent.ctx, ast.Load):
                return
    if load in trail.always:
        yield from _contained_in_each_step(trail, load)
        return
    if not _is_taken(script, load):
        if isinstance(load, ast.Attribute) and _is_returned(script, load):
            raise Blocked(f"`{ast.unparse(load)}` is returned, and may go on growing")
        raise Blocked(f"`{ast.unparse(load)}` is kept elsewhere, too")
    trail.wrapped.add(load)


def _is_taken(script: Script, load: Owner | ast.Subscript) -> bool:
    """True if what takes the list or dict is seen, or takes it as it is at that time."""
    parent = script.parent(load)
    if isinstance(parent, ast.Attribute):
        return parent.attr in _PARTS
    if _is_returned(script, load):  # what belongs to an object may grow behind it
        return not isinstance(load, ast.Attribute)
    while isinstance(parent, (ast.Tuple, ast.List, ast.Dict)):
        parent = script.parent(parent)
    return isinstance(parent, _TAKING)


def _is_returned(script: Script, load: Owner | ast.Subscript) -> bool:
    parent = script.parent(load)
    while isinstance(parent, (ast.Tuple, ast.List, ast.Dict)):
        parent = script.parent(parent)
    return isinstance(parent, ast.Return)


def _contained_in_each_step(trail: Trail, load: ast.expr) -> Iterator[Next]:
    """`bar.set_postfix(**stats)`, `for name, value in stats.items():` in every step."""
    script = trail.script
    match iterated := _iterated(script, load):
        case ast.For(target=target):
            for name in _values(script, load, target):
                yield Bound(name, iterated)
            return
    parent = script.parent(load)
    if shown_as_it_is(trail, parent if isinstance(parent, ast.Subscript) else load):
        return
    if taken := _taking(script, load):
        yield from _kept_in_parameter(trail, *taken)
        return
    if (ways := _handed_on(trail, load)) is not None:
        yield from ways
        return
    computed = number_around(script, load)
    if computed is not None and computed in trail.always:
        trail.texts.setdefault(computed, set()).add(load)
        yield Arriving(computed)
        return
    if text_around(script, load) is None:
        raise Blocked(f"`{ast.unparse(load)}` is asked for in every step")
    yield Used(load, load)


def _handed_on(trail: Trail, load: ast.expr) -> Iterator[Next] | None:
    """`{**stats, "step": step}`, `all_stats.update(stats)`, `return loss, stats`: what is in it is in another one, too."""
    script = trail.script
    parent = script.parent(load)
    match parent:
        case ast.Dict():
            return in_a_literal(trail, load, load, parent)
        case ast.Call(func=ast.Attribute(attr="extend" | "update", value=owner), args=[_]) if (
            is_owner(owner, script) and not is_own_method(script, parent)
        ):
            return kept_in(trail, owner)
        case ast.Return():
            return iter([Returned(load, parent, Held())])
        case ast.Tuple():
            outer = script.parent(parent)
            if isinstance(outer, ast.Return):
                return iter([Returned(load, outer, Held(*_place(parent, load), True))])
    return None


def kept_in_lists_of(trail: Trail, owner: Owner) -> Iterator[Next]:
    """`history["loss"].append(loss.item())`: in lists that a dict of this function, or of this class, holds."""
    key, stored, read = stores_and_loads(trail.script, owner, is_known=trail.importers_known)
    if not _is_new(trail, owner, (key, "lists")):
        return
    if not all(map(holds_lists, stored)):
        raise Blocked(f"`{ast.unparse(owner)}` is not known to hold lists of its own")
    for load in read:
        refuse_handed_on_before(trail.script, load, owner)
        yield from _lists_used(trail, load)


def _lists_used(trail: Trail, load: Owner) -> Iterator[Next]:
    parent = trail.script.parent(load)
    match parent:
        case ast.Call(func=ast.Name(id="len")):
            return
        case ast.Attribute(attr="items" | "values" | "copy") if load not in trail.always:
            trail.wrapped.add(load)
            return
        case ast.Subscript(value=owner) if owner is load:
            statement = trail.script.parent(parent)
            if isinstance(parent.ctx, ast.Load):
                yield from _contained_used(trail, parent)
                return
            if isinstance(statement, ast.Assign) and is_container(statement.value):
                return
            raise Blocked(f"`{ast.unparse(load)}` is not known to hold lists of its own")
    yield from _contained_used(trail, load)


def _place(literal: ast.expr, node: ast.expr) -> tuple[int, int]:
    assert isinstance(literal, ast.Tuple)
    if any(isinstance(p, ast.Starred) for p in literal.elts):
        raise Blocked("it is put into a tuple of any length")
    return literal.elts.index(node), len(literal.elts)


def _iterated(script: Script, load: ast.expr) -> ast.For | None:
    """The loop over `load`, `load.items()` or `load.values()`."""
    node: ast.AST | None = script.parent(load)
    child: ast.AST = load
    if isinstance(node, ast.Attribute) and node.attr in _PARTS:
        child = script.parents[node]
        node = script.parent(child)
    if _is_enumerated(node):
        assert node is not None
        child, node = node, script.parent(node)
    return node if isinstance(node, ast.For) and node.iter is child else None


def _is_enumerated(node: ast.AST | None) -> bool:
    match node:
        case ast.Call(func=ast.Name(id="enumerate"), args=[_]):
            return True
    return False


def _values(script: Script, load: ast.expr, target: ast.expr) -> list[ast.Name]:
    """The names in a loop's `target` that stand for values; keys are no numbers."""
    parent = script.parent(load)
    is_items = isinstance(parent, ast.Attribute) and parent.attr == "items"
    match target:
        case ast.Tuple(elts=[_, ast.Name() as value]) if not is_items and _is_enumerated(parent):
            return [value]
        case ast.Name():
            if is_items:
                raise Blocked(f"`{target.id}` is a key with its value")
            return [target]
        case ast.Tuple(elts=[_, ast.Name() as value]) if is_items:
            return [value]
    raise Blocked(f"`{ast.unparse(target)}` takes it apart")
