"""What is found out about a read as it is followed: what is to be changed for it, and where to look next."""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection
from copy import copy
from typing import TYPE_CHECKING, Any, NamedTuple

from ..turns import Turn, in_each_turn
from .blocked import Blocked
from .calls import Shown
from .functions import Extreme

if TYPE_CHECKING:
    from ...scopes import FunctionNode
    from ...script import Script


class Trail:
    """One read, and what it goes into."""

    def __init__(
        self, script: Script, always: Collection[ast.AST], *, importers_known: bool = False
    ) -> None:
        self.script = script
        self.always = always  # what runs in each step
        self.importers_known = importers_known  # who imports its classes has been looked at
        self.later: dict[Shown, set[ast.AST]] = {}
        self.wrapped: set[ast.expr] = set()
        self.computed: set[ast.Call] = set()  # functions of numbers: `min(best, value)`
        self.extremes: dict[ast.If, Extreme] = {}  # `if value > best: best = value`
        # Added to a tensor of the device, where they may stay.
        self.on_device: set[ast.expr] = set()
        self.handed: dict[
            ast.expr, ast.expr
        ] = {}  # numbers in the place of which tensors are handed on
        self.filled: dict[ast.Assign, str] = {}  # elements of arrays, and at which index
        self.read: set[ast.Call] = set()  # whole tensors, in calls made later
        # What is made later altogether, or not at all.
        self.together: set[ast.AST] = set()
        self.waited: set[ast.stmt] = set()  # loops behind which all is waited for
        self.names: set[object] = set()
        self.made: set[ast.AST] = set()  # calls of functions that return a list or dict
        # Texts on their way, with what is read in them.
        self.texts: dict[ast.expr, set[ast.AST]] = {}
        self.is_text = False  # what is followed is one of them
        # In a module that calls a function of another: that module, and the function.
        self.handed_by: tuple[str, str] | None = None
        # Of a meter's class in another module, which gives it by these methods.
        self.meter: ast.ClassDef | None = None
        self.getters: set[FunctionNode] = set()
        self._seen: set[tuple[bool, object]] = set()

    def is_new(self, thing: object) -> bool:
        """True when `thing` is come to for the first time."""
        if (self.is_text, thing) in self._seen:
            return False
        self._seen.add((self.is_text, thing))
        self.names.add(thing)
        return True

    def is_new_attribute(self, definition: ast.ClassDef | None, name: str) -> bool:
        """True when the attribute `name` of a class, or of anything, is come to for the first time."""
        self.names.add(name)
        return self.is_new((definition, name))

    def also_in_each_turn(self, loop: ast.For) -> None:
        """A loop over what a generator yields in each step."""
        self.always = {*self.always, *dict(in_each_turn(self.script, (Turn(loop, loop.body),)))}

    def of_text(self) -> Trail:
        """The same, for a text that is on its way."""
        text = copy(self)
        text.is_text = True
        return text

    def attempt(self, follow: Callable[[], None]) -> bool:
        """True if `follow` finds nothing in the way; else nothing is known of what it has found out."""
        before = self._found()
        kept = [copy(part) for part in before]
        shown = [({key: set(nodes) for key, nodes in part.items()}) for part in self._shown()]
        always = self.always
        try:
            follow()
        except Blocked:
            for part, old in zip([*before, *self._shown()], [*kept, *shown], strict=True):
                part.clear()
                part.update(old)
            self.always = always
            return False
        return True

    def _found(self) -> list[Any]:
        sets = (self.wrapped, self.computed, self.on_device, self.read, self.together, self.waited)
        seen = (self.names, self.made, self.getters, self._seen)
        return [*sets, *seen, self.extremes, self.filled, self.handed]

    def _shown(self) -> list[dict[Any, set[ast.AST]]]:
        return [self.later, self.texts]

    @property
    def changes(self) -> bool:
        """True if something is to be edited for it."""
        parts = (
            self.wrapped,
            self.computed,
            self.on_device,
            self.extremes,
            self.filled,
            self.handed,
        )
        return any((*parts, self.later, self.texts, self.read, self.waited))

    def is_given_back(self, function: FunctionNode | None, held: Held | None) -> bool:
        """True if `function` is a method of the meter that is followed: what it gives is followed where it is called."""
        if self.meter is None or function not in self.meter.body or held is not None:
            return False
        if not isinstance(function, ast.FunctionDef) or function.decorator_list:
            return False
        self.getters.add(function)
        return True

    def ask(self, origin: ast.expr, why: str) -> None:
        """Python's own number is wanted: now and then it may wait for it."""
        if origin in self.always:
            raise Blocked(why)
        self.wrapped.add(origin)


class Held(NamedTuple):
    """How a function returns it: at a place of a tuple of so many, or somewhere in a list or dict (`length` 0), which may
    have such a place itself.
    """

    place: int = 0
    length: int = 0
    is_inside: bool = False  # of the list or dict at that place


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


class HandedTo(NamedTuple):
    """`function` is given it for its `parameter`."""

    function: FunctionNode
    parameter: str


class Measured(NamedTuple):
    """The object `place`, a meter, has it as an `attribute`."""

    place: ast.expr
    attribute: str


Next = Arriving | Bound | Stored | Returned | Used | HandedTo | Measured
