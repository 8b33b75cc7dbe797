"""Python integers that are another in every turn of a loop that trains or evaluates: they make new graphs in shapes."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cached_property

from ....flow.calls import argument, callers, passed
from ....flow.closure import reach, without_fault
from ....flow.edges import sources
from ...inference.values import NUMBER, TENSOR
from ...nodes import CALLABLES, LOOPS, walk
from ...scopes import Binding, FunctionNode
from ...script import Script
from ...syntax import unparsed
from ..acting import acts
from ..tensors.computed import computing
from ..tensors.device_tensors import may_be_read
from ..training import FORWARD, TRAINING
from ..turns import in_each_step
from .counting import FEW, counts, draws_an_array, is_drawing
from .sums import computed_with, is_rest, leaves_room, offset_of

_OF_SETS = (ast.BitAnd, ast.BitOr, ast.BitXor)
_KEEPING = frozenset({"abs", "int", "max", "min", "round"})
_KEEPING_OF_MODULES = frozenset(
    "math.ceil math.floor numpy.ceil numpy.clip numpy.floor numpy.maximum numpy.minimum".split()
)


_INTEGERS = frozenset({"random.randint", "random.randrange"})


class Counters:
    """What counts the turns of one script's loops."""

    def __init__(self, script: Script) -> None:
        self.script = script

    @cached_property
    def loops(self) -> set[ast.AST]:
        """Loops each turn of which is a separate graph: those that train, those that evaluate, and those that yield."""
        training = self.script.training
        yields = (node for node, _ in self.script.index.of(ast.Yield))
        return {loop for loop in map(self._yields, yields) if loop is not None} | {
            loop.node
            for loop in training.loops
            if isinstance(loop.node, LOOPS)
            and (
                loop.effects & TRAINING
                or (
                    FORWARD in loop.effects
                    and (training.is_inference(loop.node) or acts(self.script, loop))
                )
            )
        }

    def _yields(self, node: ast.AST) -> ast.AST | None:
        """The innermost loop of the generator that `node` yields in: what iterates over it steps between its turns."""
        for ancestor in self.script.ancestors(node):
            if isinstance(ancestor, LOOPS):
                return ancestor
            if isinstance(ancestor, CALLABLES):
                break
        return None

    @property
    def any(self) -> bool:
        """True if there is such a loop at all."""
        return bool(self.loops)

    @property
    def keeps_any(self) -> bool:
        """True if an object of the file keeps a number that its methods move on."""
        index = self.script.index
        targets: list[ast.expr] = [augment.target for augment, _ in index.of(ast.AugAssign)]
        targets += [target for assign, _ in index.of(ast.Assign) for target in assign.targets]
        return any(isinstance(t, ast.Attribute) and self._is_kept(t) for t in targets)

    def changes(self, node: ast.expr) -> bool:
        """Return True if `node` is a number that counts turns or is drawn in each, or is computed from one."""
        return any(map(self.is_counter, reach([node], self.parts)))

    def moves(self, node: ast.expr) -> bool:
        """Return True if `node` is a place that moves: a counter, one that an object keeps, or one kept on the device."""
        reached = reach([node], lambda each: (*self.parts(each), *self._kept_in(each)))
        return any(self.is_counter(each) or self._is_kept(each) for each in reached)

    def is_an_integer(self, node: ast.expr) -> bool:
        """Return True if `node` is surely a Python integer: a tensor of positions takes several elements."""
        return without_fault([node], self._integers)

    def _integers(self, node: ast.expr) -> list[ast.expr] | None:
        """Return the integers that `node` is computed from; None if it may be something else."""
        match node:
            case ast.Name():
                bindings = [b for b in self.script.reaching(node) if not self._counts(b)]
                given = [self._given(binding) for binding in bindings]
                return [v for values in given for v in values] if all(given) else None
            case ast.Call(func=ast.Name(id="int" | "len" | "round")):
                return []
            case ast.Call(func=func) if self.script.dotted(func) in _INTEGERS:
                return []
        return [] if self.script.value(node).kinds == {NUMBER} else None

    def _given(self, binding: Binding) -> list[ast.expr]:
        """Return what a name is bound to, if all of it is known."""
        if binding.how != "parameter" or not isinstance(binding.node, ast.arg):
            return [binding.part] if binding.how == "assign" and binding.part is not None else []
        function, project = self.script.function(binding.node), self.script.project
        if function is None or project.wants(function.name):
            return []
        if project.uses_attribute(function.name):
            return []
        return [v for v in passed(self.script, function, binding.node.arg) if v is not None]

    def parts(self, node: ast.expr) -> list[ast.expr]:
        """Return the numbers that `node` is computed from."""
        match node:
            case ast.Name():
                bindings = self.script.reaching(node)
                given = sources(self.script, node) if any(map(self._is_a_part, bindings)) else ()
                return [*(part for b in bindings for part in self._bound(b)), *given]
            case ast.Call(func=ast.Name(id=name)) if name in _KEEPING:
                return computed_with(node)
            case ast.Call(func=func, args=args) if self.script.dotted(func) in _KEEPING_OF_MODULES:
                return args
            case ast.Subscript(value=ast.Call() as drawn, slice=ast.Constant()):
                return [drawn]
            case ast.BinOp(left=left, right=right) if not _is_one_of_few(node):
                return [left, right]
            case ast.UnaryOp(operand=operand):
                return [operand]
        return []

    def _is_a_part(self, binding: Binding) -> bool:
        """Return True for a variable of such a loop, and for `x1` of `x1, x2 = random_box()` in one."""
        if binding.how == "for":
            return binding.node in self.loops
        return (
            isinstance(binding.value, ast.Call)
            and not binding.part
            and self._is_in_a_loop(binding.value)
        )

    def _bound(self, binding: Binding) -> list[ast.expr]:
        """Return what a name is bound to: a statement's value in such a loop, or what calls pass."""
        if binding.how == "parameter" and isinstance(binding.node, ast.arg):
            function = self.script.function(binding.node)
            if function is None or _is_a_forward_pass(self.script, function):
                return []
            calls = callers(self.script, function)
            given = (argument(self.script, binding.node.arg, function, call) for call in calls)
            return [value for value in given if value is not None]
        value = binding.part if binding.how == "assign" else None
        return [value] if value is not None and self._is_in_a_loop(value) else []

    def is_counter(self, node: ast.expr) -> bool:
        """Return True if `node` itself counts, or is drawn in such a loop."""
        if isinstance(node, ast.Name):
            return any(map(self._counts, self.script.reaching(node)))
        if not isinstance(node, ast.Call) or not is_drawing(self.script, node):
            return False
        return not draws_an_array(self.script, node) and self._is_in_a_loop(node)

    def _counts(self, binding: Binding) -> bool:
        match binding:
            case Binding(how="for", node=ast.For(iter=iterated) | ast.AsyncFor(iter=iterated)):
                return binding.node in self.loops and counts(
                    self.script, iterated, binding.path[1:]
                )
            case Binding(how="augment", node=ast.AugAssign() as augment):
                return self._is_counted_on(augment)
            case Binding(how="assign", part=ast.BinOp() as advanced):
                return self._is_advanced_by(binding, advanced)
        return False

    def _kept_in(self, node: ast.expr) -> Iterator[ast.expr]:
        """Yield the values that the name `node` keeps from turn to turn."""
        for binding in self.script.reaching(node) if isinstance(node, ast.Name) else ():
            if binding.how in {"assign", "augment"} and binding.value and not binding.path:
                yield binding.value

    def _is_kept(self, node: ast.expr) -> bool:
        match node:
            case ast.Call(func=ast.Name(id="int"), args=[read]):
                return may_be_read(self.script, read)
            case ast.Call(func=ast.Attribute(value=read, attr="item"), args=[]):
                return may_be_read(self.script, read)
            case ast.Attribute(value=ast.Name(id="self")):
                return self._is_advanced(node)
            case ast.Attribute():
                return self.is_moved_in_a_turn(node)
        return False

    def _is_advanced(self, node: ast.Attribute) -> bool:
        """`self.position`, which its class moves on: `self.position = (self.position + 1) % self.size`."""
        text = ast.unparse(node)
        for statement, _ in self.script.index.of(ast.AugAssign):
            if isinstance(statement.op, ast.Add) and ast.unparse(statement.target) == text:
                return True
        for assign, _ in self.script.index.assignments(text):
            around = self.script.function(assign)
            if around is None or around.name == "__init__":
                continue  # once: `self.size = self.size * 2`
            if isinstance(assign.value, ast.BinOp) and any(
                isinstance(n, ast.Attribute) and unparsed(n) == text for n in walk(assign.value)
            ):
                return True
        return False

    def is_moved_in_a_turn(self, node: ast.Attribute) -> bool:
        """Return True for `state.size`, which such a loop moves on: `state.size += 1`."""
        text = ast.unparse(node)
        moves = [a for a, _ in self.script.index.of(ast.AugAssign) if unparsed(a.target) == text]
        sets = [assign for assign, _ in self.script.index.assignments(text)]
        is_set = any(self._is_in_a_loop(each) and text not in unparsed(each.value) for each in sets)
        return not is_set and any(
            self._is_in_a_loop(each) and self.script.value(node).kinds <= {NUMBER}
            for each in (*moves, *(s for s in sets if isinstance(s.value, ast.BinOp)))
        )

    def _is_advanced_by(self, binding: Binding, value: ast.BinOp) -> bool:
        """Return True if the assignment continues from the previous turn: `i = (i + n) % size`."""
        if self._loop_around(value) not in self.loops:
            return False
        if self.script.value(value).kinds != {NUMBER}:
            return False
        start: list[ast.expr] = [value]
        reached = list(reach(start, self._advanced))
        return any(_is_step(each) for each in reached) and any(
            isinstance(each, ast.Name) and binding in self.script.reaching(each) for each in reached
        )

    def _advanced(self, node: ast.expr) -> list[ast.expr]:
        """Return the numbers that `node` moves on from; none of `1 - i`, which alternates."""
        match node:
            case ast.Name():
                return self.parts(node)
            case ast.BinOp(left=left, op=ast.Add(), right=right):
                return [left, right]
            case ast.BinOp(left=left, op=ast.Sub() | ast.Mod()) if not _is_one_of_few(node):
                return [left]
        return []

    def _loop_around(self, node: ast.AST) -> ast.AST | None:
        around = self.script.ancestors(node)
        return next((n for n in around if isinstance(n, (*LOOPS, ast.comprehension))), None)

    def _is_counted_on(self, augment: ast.AugAssign) -> bool:
        """`start += length` once a turn, and not from the same place in each."""
        loop = self._loop_around(augment)
        if loop not in self.loops or not isinstance(augment.target, ast.Name):
            return False
        if isinstance(augment.op, _OF_SETS) or self.script.value(augment.target).has(TENSOR):
            return False  # `done |= token == eos`
        return not any(
            b.how == "assign"
            and self.script.parent(self.script.statement(b.node)) is loop
            and not _reads(b.part, augment.target.id)  # `i = i % size` continues
            for b in self.script.bindings(augment.target)
        )

    def _is_in_a_loop(self, node: ast.AST) -> bool:
        """Return True if `node` runs in each turn: in such a loop, or in what a model computes."""
        if any(ancestor in self.loops for ancestor in self.script.ancestors(node)):
            return True
        return self.script.function(node) in computing(self.script) or node in in_each_step(
            self.script
        )

    # Bounds.

    def stays_inside(self, source: ast.expr, dim: int, start: ast.expr, length: ast.expr) -> bool:
        """True if it can be seen that `start + length` does not pass the end of `source` in dimension `dim`."""
        if dim != 0:
            return False
        base, more = offset_of(start)
        return self._length_is_cut(source, base, more, length) or self._range_stops(
            source, base, more, length
        )

    def _length_is_cut(self, source: ast.expr, base: ast.expr, more: int, length: ast.expr) -> bool:
        """`n = min(n, len(source) - 1 - i)`."""
        for value in self._values(length):
            match value:
                case ast.Call(func=ast.Name(id="min"), args=[*arguments], keywords=[]):
                    if not any(is_rest(a, source, base, more) for a in arguments):
                        return False
                case _:
                    return False
        return bool(self._values(length))

    def _range_stops(self, source: ast.expr, base: ast.expr, more: int, length: ast.expr) -> bool:
        """`for i in range(a, len(source) - n, ...)`."""
        if not isinstance(base, ast.Name):
            return False
        bindings = self.script.reaching(base)
        for binding in bindings:
            loop = binding.node
            if binding.how != "for" or not isinstance(loop, ast.For):
                return False
            match loop.iter:
                case (
                    ast.Call(func=ast.Name(id="range"), args=[stop])
                    | ast.Call(func=ast.Name(id="range"), args=[_, stop, *_])
                ):
                    if not leaves_room(stop, source, length, more):
                        return False
                case _:
                    return False
        return bool(bindings)

    def _values(self, node: ast.expr) -> list[ast.expr | None]:
        """What the name `node` is bound to where it reaches; of anything else, itself."""
        if not isinstance(node, ast.Name):
            return [node]
        return [binding.whole for binding in self.script.reaching(node)]


def _is_a_forward_pass(script: Script, function: FunctionNode) -> bool:
    return function.name in {"forward", "__call__"} and script.is_in_a_module(function)


def _is_step(node: ast.expr) -> bool:
    return isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub))


def _reads(node: ast.expr | None, name: str) -> bool:
    return node is not None and any(isinstance(n, ast.Name) and n.id == name for n in walk(node))


def _is_one_of_few(node: ast.BinOp) -> bool:
    """`step % 2`: the same few places, each compiled once."""
    match node:
        case ast.BinOp(op=ast.Mod(), right=ast.Constant(value=int(few))):
            return few <= FEW
    return False
