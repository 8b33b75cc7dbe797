"""Lists, dicts and tuples that numbers on their way are kept in: who looks at them."""

from __future__ import annotations

import ast
from collections.abc import Container
from typing import TYPE_CHECKING, NamedTuple

from .blocked import Blocked
from .calls import Shown
from .formatted import holds_lists, is_container
from .functions import Extreme
from .names import Owner, is_owner, part_of, stores_and_loads

if TYPE_CHECKING:
    from ...script import Script

# Methods that add to a container, or take from it, and tell nothing.
_CHANGING = frozenset({"append", "clear", "extend", "update"})
_PARTS = frozenset({"items", "values"})
_TAKING = (
    *(ast.Call, ast.FormattedValue, ast.BinOp, ast.Subscript),
    *(ast.comprehension, ast.For, ast.keyword),
)


class Held(NamedTuple):
    """How a function returns it: at a place of a tuple of so many, or somewhere in a list or dict (`length` 0)."""

    place: int = 0
    length: int = 0


class Holding:
    """What follows a read through what holds it; `Flow` does the rest."""

    def __init__(
        self, script: Script, always: Container[ast.AST], *, is_known: bool = False
    ) -> None:
        self.script = script
        self.is_known = is_known  # who imports its classes has been looked at
        self.always = always
        self.later: dict[Shown, set[ast.AST]] = {}
        self.wrapped: set[ast.expr] = set()
        self.computed: set[ast.Call] = set()  # functions of numbers: `min(best, value)`
        self.extremes: dict[ast.If, Extreme] = {}  # `if value > best: best = value`
        self.on_device: set[ast.expr] = (
            set()
        )  # added to a tensor of the device, where they may stay
        self.read: set[ast.Call] = set()  # reads of whole tensors, in calls made later
        self.together: set[ast.AST] = set()  # what is made later altogether, or not at all
        self.names: set[object] = set()
        self._seen: set[object] = set()
        self._made: set[ast.AST] = set()  # calls of functions that return a list or dict

    def _is_known(self, thing: object) -> bool:
        known = thing in self._seen
        self._seen.add(thing)
        self.names.add(thing)
        return known

    def _in_a_literal(self, origin: ast.expr, node: ast.expr, literal: ast.expr) -> None:
        """`stats = {"loss": loss.item()}`, `return loss.item(), correct.item()`, `rows.append((step, loss.item()))`."""
        outer = self.script.parent(literal)
        is_tuple = isinstance(literal, ast.Tuple)
        match outer:
            case ast.Tuple() | ast.List() | ast.Dict():
                self._in_a_literal(origin, literal, outer)
            case ast.Assign(targets=[ast.Name() as target]) if not is_tuple:
                self._kept_in(target)
            case ast.AnnAssign(target=ast.Name() as target) if not is_tuple:
                self._kept_in(target)
            case ast.Assign(targets=[target]) if isinstance(literal, ast.Tuple) and (
                found := part_of(target, *_place(literal, node))
            ):
                self._stored(origin, found)
            case ast.Call(func=ast.Attribute(attr="append", value=owner), args=[_]) if is_owner(
                owner, self.script
            ):
                self._kept_in(owner)
            case ast.Return():
                held = Held(*_place(literal, node)) if isinstance(literal, ast.Tuple) else Held()
                self._returned(origin, outer, held)
            case _:
                self._shown(origin, node)

    def _given(self, call: ast.expr, held: Held) -> None:
        """`call` gives a tuple, a list or a dict that holds it."""
        parent = self.script.parent(call)
        match parent:
            case ast.Expr():
                return
            case ast.Return() if call in self.always:
                self._returned(call, parent, held)
            case ast.Assign(targets=[ast.Tuple() | ast.List() as target]) if held.length:
                found = part_of(target, *held)
                if found is None:
                    raise Blocked("it is returned in a tuple, which is taken apart")
                self._stored(call, found)
            case ast.Assign(targets=[ast.Name() as target]) if not held.length:
                self._made.add(call)
                self._kept_in(target)
            case ast.Subscript(value=owner, slice=ast.Constant(value=key)) if owner is call:
                if not held.length or (isinstance(key, int) and key % held.length == held.place):
                    self.number(parent)
            case _:
                self._shown(call, call)

    def _kept_in(self, owner: Owner) -> None:
        """In a list or dict."""
        key, stored, read = stores_and_loads(self.script, owner, is_known=self.is_known)
        if self._is_known(key):
            return
        if not all(is_container(value) or value in self._made for value in stored):
            raise Blocked(f"`{ast.unparse(owner)}` is not known to be a list or dict of its own")
        for load in read:
            self._contained_used(load)

    def _contained_used(self, load: Owner | ast.Subscript) -> None:
        """A list or dict is used, by its name or as an entry of another."""
        parent = self.script.parent(load)
        match parent:
            case ast.Attribute(attr=name) if name in _CHANGING:
                if isinstance(self.script.parent(self.script.parents[parent]), ast.Expr):
                    return
            case ast.Call(func=ast.Name(id="len")):
                return
            case ast.Subscript(value=owner) if owner is load:
                if isinstance(parent.ctx, ast.Load) and not isinstance(parent.slice, ast.Slice):
                    self.number(parent)
                    return
                if not isinstance(parent.ctx, ast.Load):
                    return
        if load in self.always:
            self._contained_in_each_step(load)
            return
        if not self._is_taken(load):
            raise Blocked(f"`{ast.unparse(load)}` is kept elsewhere, too")
        self.wrapped.add(load)

    def _is_taken(self, load: Owner | ast.Subscript) -> bool:
        """True if what takes the list or dict is seen, or takes it as it is at that time."""
        parent = self.script.parent(load)
        if isinstance(parent, ast.Attribute):
            return parent.attr in _PARTS
        while isinstance(parent, (ast.Tuple, ast.List, ast.Dict)):
            parent = self.script.parent(parent)
        if isinstance(parent, ast.Return):  # what belongs to an object may grow behind it
            return not isinstance(load, ast.Attribute)
        return isinstance(parent, _TAKING)

    def _contained_in_each_step(self, load: ast.expr) -> None:
        """`bar.set_postfix(**stats)`, `for name, value in stats.items():` in every step."""
        match iterated := _iterated(self.script, load):
            case ast.For(target=target):
                for name in _values(self.script, load, target):
                    self._name(name, iterated)
                return
        parent = self.script.parent(load)
        if self._is_shown_as_it_is(parent if isinstance(parent, ast.Subscript) else load):
            return
        raise Blocked(f"`{ast.unparse(load)}` is asked for in every step")

    def _kept_in_lists_of(self, owner: Owner) -> None:
        """`history["loss"].append(loss.item())`: in lists that a dict of this function, or of this class, holds."""
        key, stored, read = stores_and_loads(self.script, owner, is_known=self.is_known)
        if self._is_known((key, "lists")):
            return
        if not all(map(holds_lists, stored)):
            raise Blocked(f"`{ast.unparse(owner)}` is not known to hold lists of its own")
        for load in read:
            self._lists_used(load)

    def _lists_used(self, load: Owner) -> None:
        parent = self.script.parent(load)
        match parent:
            case ast.Call(func=ast.Name(id="len")):
                return
            case ast.Attribute(attr="items" | "values" | "copy") if load not in self.always:
                self.wrapped.add(load)
                return
            case ast.Subscript(value=owner) if owner is load:
                statement = self.script.parent(parent)
                if isinstance(parent.ctx, ast.Load):
                    self._contained_used(parent)
                    return
                if isinstance(statement, ast.Assign) and is_container(statement.value):
                    return
                raise Blocked(f"`{ast.unparse(load)}` is not known to hold lists of its own")
        self._contained_used(load)

    # What `Flow` does.

    def number(self, node: ast.expr) -> None:
        raise NotImplementedError

    def _name(self, target: ast.Name, loop: ast.For | None = None) -> None:
        raise NotImplementedError

    def _stored(self, origin: ast.expr, target: ast.expr) -> None:
        raise NotImplementedError

    def _returned(self, origin: ast.expr, statement: ast.Return, held: Held | None = None) -> None:
        raise NotImplementedError

    def _shown(self, origin: ast.expr, node: ast.AST) -> None:
        raise NotImplementedError

    def _is_shown_as_it_is(self, load: ast.expr) -> bool:
        raise NotImplementedError


def _place(literal: ast.Tuple, node: ast.expr) -> tuple[int, int]:
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
    return node if isinstance(node, ast.For) and node.iter is child else None


def _values(script: Script, load: ast.expr, target: ast.expr) -> list[ast.Name]:
    """The names in a loop's `target` that stand for values; keys are no numbers."""
    parent = script.parent(load)
    is_items = isinstance(parent, ast.Attribute) and parent.attr == "items"
    match target:
        case ast.Name():
            if is_items:
                raise Blocked(f"`{target.id}` is a key with its value")
            return [target]
        case ast.Tuple(elts=[_, ast.Name() as value]) if is_items:
            return [value]
    raise Blocked(f"`{ast.unparse(target)}` takes it apart")
