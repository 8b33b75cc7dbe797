"""What is found out about a read as it is followed: what is to be changed for it, and where to look next."""

from __future__ import annotations

import ast
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

from ..turns import Turn, in_each_turn
from .blocked import Blocked
from .calls import Shown
from .functions import Extreme

if TYPE_CHECKING:
    from ...script import Script


@dataclass(slots=True)
class Trail:
    """One read, and what it goes into."""

    script: Script
    always: Collection[ast.AST]  # what runs in each step
    importers_known: bool = False  # who imports its classes has been looked at
    later: dict[Shown, set[ast.AST]] = field(default_factory=dict)
    wrapped: set[ast.expr] = field(default_factory=set)
    computed: set[ast.Call] = field(default_factory=set)  # functions of numbers: `min(best, value)`
    extremes: dict[ast.If, Extreme] = field(default_factory=dict)  # `if value > best: best = value`
    # Added to a tensor of the device, where they may stay.
    on_device: set[ast.expr] = field(default_factory=set)
    read: set[ast.Call] = field(default_factory=set)  # whole tensors, in calls made later
    # What is made later altogether, or not at all.
    together: set[ast.AST] = field(default_factory=set)
    waited: set[ast.stmt] = field(default_factory=set)  # loops behind which all is waited for
    names: set[object] = field(default_factory=set)
    made: set[ast.AST] = field(default_factory=set)  # calls of functions that return a list or dict
    # Texts on their way, with what is read in them.
    texts: dict[ast.expr, set[ast.AST]] = field(default_factory=dict)
    is_text: bool = False  # what is followed is one of them
    _seen: set[tuple[bool, object]] = field(default_factory=set)

    def is_new(self, thing: object) -> bool:
        """True when `thing` is come to for the first time."""
        if (self.is_text, thing) in self._seen:
            return False
        self._seen.add((self.is_text, thing))
        self.names.add(thing)
        return True

    def also_in_each_turn(self, loop: ast.For) -> None:
        """A loop over what a generator yields in each step."""
        self.always = {*self.always, *dict(in_each_turn(self.script, (Turn(loop, loop.body),)))}

    def of_text(self) -> Trail:
        """The same, for a text that is on its way."""
        return replace(self, is_text=True)

    def ask(self, origin: ast.expr, why: str) -> None:
        """Python's own number is wanted: now and then it may wait for it."""
        if origin in self.always:
            raise Blocked(why)
        self.wrapped.add(origin)


class Held(NamedTuple):
    """How a function returns it: at a place of a tuple of so many, or somewhere in a list or dict (`length` 0)."""

    place: int = 0
    length: int = 0


class Arriving(NamedTuple):
    """`node` gives it, as a number on its way."""

    node: ast.expr


class Bound(NamedTuple):
    """The name `target` is bound to it, by its statement or by `loop`."""

    target: ast.Name
    loop: ast.For | None = None


class Stored(NamedTuple):
    """`origin` is kept in `target`, whatever that is."""

    origin: ast.expr
    target: ast.expr


class Returned(NamedTuple):
    """`origin` is returned, as it is or `held` in a tuple, a list or a dict."""

    origin: ast.expr
    statement: ast.Return
    held: Held | None = None


class Used(NamedTuple):
    """`node`, which holds `origin`, is formatted, or handed to a call, or anything else."""

    origin: ast.expr
    node: ast.AST


Next = Arriving | Bound | Stored | Returned | Used
