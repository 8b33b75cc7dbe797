"""The use of a batch in the body of a loop: moved to the device, or needed on the host.

A device loader may stand around a loader only if every use of a batch would also do with tensors on the device:
moved there anyway, or asked for no more than its length and shape.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple, TypeGuard

from ...flow.calls import call_with, receives
from ...flow.closure import reach
from ...flow.edges import sources, unpacked, uses
from ...patterns import Pattern
from ..devices.tensor_types import cuda_type
from ..inference.values import DEVICE, DTYPE, HOST, MODULE, NUMBER
from ..loops import LoopNode, body_of
from ..nodes import walk
from ..parsed_file import ParsedFile
from ..scopes import ITERATED
from ..syntax import keyword, name_of, position
from .kept_entries import kept_entries

_MOVING = Pattern(
    r"to_(?:device|cuda|gpu|accelerator)|move_|_to$|(?:^|_)cuda|send_to|put_on|prepare_(?:input|batch)|copy_to",
    re.IGNORECASE,
)
_ASKED = frozenset(
    (
        "shape size dim ndim numel nelement __len__ batch_size num_graphs dtype keys "
        "is_floating_point"
    ).split()
)
# What a tensor has, too: no part of a batch that is one.
_OF_TENSORS = frozenset(
    "data grad grad_fn device layout real imag T H mT mH is_cuda is_leaf requires_grad itemsize nbytes".split()
)
_QUESTIONS = frozenset({"len", "is_tensor", "isinstance", "type", "id", "hasattr", "issubclass"})
_PASSED_THROUGH = frozenset(
    (
        "float long int double half bool view reshape squeeze unsqueeze permute transpose "
        "contiguous flatten t detach requires_grad_ clone pin_memory type flip expand repeat "
        "values items pop get copy"
    ).split()
)
_MAPPING = frozenset({"map", "tree_map", "apply", "recursive_apply", "starmap"})
# A place in the source: line, column.
Place = tuple[int, int]

# A part of a batch: where it stands in a tuple, its key, its field; None is all of it.
Part = int | str | None


class BatchUse(NamedTuple):
    """An expression whose value is a batch, or a part of it."""

    node: ast.expr
    part: Part = None

    def of(self, node: ast.expr, part: Part = None) -> BatchUse:
        """Return a use of a part of this part."""
        return BatchUse(node, part if self.part is None else self.part)


class BatchFlow(NamedTuple):
    """`moved`: at least one use moves the batch to the device, and none needs it on the host.
    `host` names the first use that does; `parts` are those that all such uses are of, where others are moved.
    """

    moved: bool
    moves: tuple[ast.AST, ...]
    host: ast.AST | None
    parts: tuple[int | str, ...] = ()


class Batches:
    """The flows of one script's loops."""

    def __init__(self, script: ParsedFile) -> None:
        self.script = script
        self._flows: dict[tuple[ast.AST, bool], BatchFlow] = {}

    def flow(self, loop: LoopNode, *, own: bool = False) -> BatchFlow:
        """What the body of `loop` does with the batches that it is fed; `own`: with those that it iterates over."""
        key = loop, own
        if key not in self._flows:
            self._flows[key] = self._found(loop, [] if own else self._fed(loop))
        return self._flows[key]

    def _found(self, loop: LoopNode, fed: list[BatchUse]) -> BatchFlow:
        moves, host = list[tuple[ast.AST, Part]](), list[BatchUse]()

        def step(use: BatchUse) -> Iterator[BatchUse]:
            moved = self._moves(use)
            moves.extend((move, use.part) for move in moved)
            kept = (key for move in moved for key in kept_entries(self.script, move))
            host.extend(use.of(use.node, key) for key in kept)
            found = [] if moved else self._next(use)
            if found is None:
                host.append(use)
            yield from (each for each in found or () if self._is_within(loop, each.node))

        reach([*self._own(loop), *fed], step)
        first = min((use.node for use in host), key=position, default=None)
        parts = _on_host({part for _, part in moves}, {use.part for use in host})
        parts = () if self._is_zipped(loop) else parts
        return BatchFlow(bool(moves) and not host, tuple(move for move, _ in moves), first, parts)

    def _is_within(self, loop: LoopNode, node: ast.expr) -> bool:
        """Return True for a node in `loop`, and in other functions than that of `loop`."""
        is_beside = self.script.function(node) is self.script.function(loop)
        return not is_beside or loop in self.script.ancestors(node)

    def _fed(self, loop: LoopNode) -> list[BatchUse]:
        """Return what `next` takes in the body of `loop`."""
        assigns = (node for node in _walk(body_of(loop)) if isinstance(node, ast.Assign))
        return [BatchUse(node.value) for node in assigns if _is_next(node.value)]

    def _own(self, loop: LoopNode) -> Iterator[BatchUse]:
        """Yield the reads of the loop's target, without the index of `enumerate`."""
        if isinstance(loop, ast.While):
            return
        of = loop.generators[0] if isinstance(loop, (ast.ListComp, ast.GeneratorExp)) else loop
        is_counted = of is loop and self._is_counted(of.target, of.iter)
        for read, (_, *path) in self._reads(of.iter):
            if not is_counted:
                yield BatchUse(read, _part(path))
            elif path[:1] != [0]:
                yield BatchUse(read, _part(path[1:]))

    def _is_counted(self, target: ast.expr, iterated: ast.expr) -> bool:
        """Return True if the first of two parts is a number: `for step, batch in enumerate(loader)`."""
        if not isinstance(target, ast.Tuple) or len(target.elts) != 2:
            return False
        items = self.script.value(iterated).iterated().items or ()
        return any(item.has(NUMBER) for item in items[:1])

    def _is_zipped(self, loop: LoopNode) -> bool:
        """Return True if the parts of the loop's values may be batches of several loaders: `zip(a, b)`, before `iter` and the like."""
        if not self.script.source.mentions("zip"):
            return False

        def made_of(node: ast.expr) -> Iterator[ast.expr]:
            for name in walk(node):
                if isinstance(name, ast.Name):
                    yield from (b.value for b in self.script.bindings(name) if b.value is not None)

        start: list[ast.expr] = [node for node in _walk(body_of(loop)) if _is_next(node)]
        if isinstance(loop, (ast.ListComp, ast.GeneratorExp)):
            start = [loop.generators[0].iter]
        elif not isinstance(loop, ast.While):
            start.append(loop.iter)
        parts = (part for node in reach(start, made_of) for part in walk(node))
        return any(isinstance(p, ast.Call) and "zip" in ast.unparse(p.func) for p in parts)

    def _reads(self, node: ast.expr) -> Iterator[tuple[ast.Name, tuple[int, ...]]]:
        """Yield the reads of the names that `node` is unpacked into, unless they are bound to what was moved before."""
        stores: dict[str, list[ast.Assign]] = {}
        for read, path in unpacked(self.script, node):
            given = [b.value for b in self.script.reaching(read) if isinstance(b.node, ast.Assign)]
            if read.id not in stores:
                stores[read.id] = [*self._stores(read)]
            entry = self.script.parent(read)
            stored = [a.value for a in stores[read.id] if not _of_other_entries(a, entry)]
            before = (v for v in (*given, *stored) if v and _end(v) <= position(read))
            if not any(map(self._moving, before)):
                yield read, path

    def _stores(self, read: ast.Name) -> Iterator[ast.Assign]:
        """Yield the assignments to entries and attributes of the variable `read`: `batch[k] = ...`."""
        for name in self.script.index.reads(read):
            target = self.script.parent(name)
            assign = self.script.parent(target) if target is not None else None
            if isinstance(assign, ast.Assign) and target in assign.targets:
                yield assign

    def _moves(self, use: BatchUse) -> list[ast.AST]:
        """Return the calls at `use` that move the batch."""
        script, node = self.script, use.node
        match script.parent(node):
            case ast.Attribute() as method:
                called = script.parent(method)
                if isinstance(called, ast.Call) and called.func is method:
                    return [called] if self.is_move(called) else []
            case ast.keyword() | ast.Call():
                call = call_with(script, node)
                if call is not None:
                    is_mapped = name_of(call.func) in _MAPPING and self._moving(call)
                    return [call] if is_mapped or self.is_move(call) else []
            case ast.comprehension(iter=iterated) as generator if iterated is node:
                return self._moving(script.parent(generator))
            case ast.For(iter=iterated) as loop if iterated is node:
                return self._moving(loop)
            case ast.Tuple() | ast.List() as display:
                return self._moves_of_each(display)
        return []

    def _moves_of_each(self, display: ast.Tuple | ast.List) -> list[ast.AST]:
        """Return the calls that move each element of `display`: `[t.cuda() for t in (x, y)]`, `map(move, (x, y))`."""
        match self.script.parent(display):
            case ast.comprehension(iter=iterated) as generator if iterated is display:
                return self._moving(self.script.parent(generator))
            case ast.Call(func=ast.Name(id="map")) as call if self._moving(call):
                return [call]
        return []

    def _next(self, use: BatchUse) -> list[BatchUse] | None:
        """Return the uses of the same batch one step later; None if the host needs it at `use`."""
        script, node = self.script, use.node
        match script.parent(node):
            case ast.Attribute() as attribute:
                return self._of_attribute(use, attribute)
            case ast.Call() as call:
                return self._of_argument(use, call)
            case ast.keyword() as named:
                around = script.parent(named)
                return self._of_argument(use, around) if isinstance(around, ast.Call) else []
            case ast.Subscript(value=value, slice=ast.Name() as key) if (
                value is node and self._moving(_comprehension(script, key))
            ):
                return []  # `{k: batch[k].to(device) for k in batch}` moves the batch
            case ast.Subscript(value=value, slice=index) as entry if value is node:
                # `batch[k] = ...` puts it back.
                return [use.of(entry, _key(index))] if isinstance(entry.ctx, ast.Load) else []
            case ast.Starred() as starred:
                return [use.of(starred)]
            case ast.IfExp(test=test) as choice if test is not node:
                return [use.of(choice)]
            case ast.Assign(value=value) as assign if value is node:
                return self._of_assigned(use, assign)
            case ast.Tuple() | ast.List() as display if _is_assigned(
                script.parent(display), display
            ):
                found = [use.of(read, _part(path)) for read, path in self._reads(node)]
                return found or [use.of(display)]
            case ast.comprehension(iter=iterated) | ast.For(iter=iterated) if iterated is node:
                reads = [read for read, _ in self._reads(node)]
                return [use.of(read) for read in reads if not self._is_key(read)]
            case ast.Delete() | ast.Expr():
                return []
            case ast.Compare() as test if _asks_identity(test):
                return []
        return None

    def _of_attribute(self, use: BatchUse, attribute: ast.Attribute) -> list[BatchUse] | None:
        call, name = self.script.parent(attribute), attribute.attr
        if name in _ASKED:
            return []
        if not isinstance(call, ast.Call) or call.func is not attribute:
            return [use.of(attribute, None if name in _OF_TENSORS else name)]
        is_entry = name in {"get", "pop"} and call.args
        taken = _key(call.args[0]) if is_entry else None
        return [use.of(call, taken)] if name in _PASSED_THROUGH else None

    def _of_argument(self, use: BatchUse, call: ast.Call) -> list[BatchUse] | None:
        """A batch passed to a call that only asks, to one that returns it, or to a function of the file."""
        name = name_of(call.func)
        if name in _QUESTIONS:
            return []
        if name in {"enumerate", "zip", "list", "tuple", "dict", "Variable"}:
            return [use.of(call)]
        is_module = self.script.value(call.func).has(MODULE)
        if is_module or receives(self.script, call, use.node) is None:
            return None
        return [use.of(read) for read in uses(self.script, use.node)]

    def _of_assigned(self, use: BatchUse, assign: ast.Assign) -> list[BatchUse]:
        """`x, y = batch` and `inputs = batch["x"]`."""
        found = [use.of(read, _part(path)) for read, path in self._reads(use.node)]
        kept = [t for t in assign.targets if isinstance(t, (ast.Attribute, ast.Subscript))]
        if kept:
            others = uses(self.script, use.node)
            found += [use.of(read) for read in others if not isinstance(read, ast.Name)]
        for target in kept:
            if isinstance(target, ast.Subscript) and isinstance(target.value, ast.Name):
                reads = self.script.index.reads(target.value)
                found += [use.of(read) for read in reads if _end(assign) <= position(read)]
        return found

    def _is_key(self, read: ast.Name) -> bool:
        """Return True if an element that is iterated is only a key, or only copied."""
        match self.script.parent(read):
            case ast.Subscript(value=value):
                return value is not read
            case ast.DictComp() | ast.Tuple():
                return True
        return False

    def _moving(self, node: ast.AST | None) -> list[ast.AST]:
        """Return the calls in `node` that move something."""
        calls = (part for part in walk(node) if isinstance(part, ast.Call)) if node else ()
        return [call for call in calls if self.is_move(call)]

    def is_move(self, call: ast.Call) -> bool:
        """`x.to(device)`, `x.cuda()`, `to_device(x, ...)`."""
        func = call.func
        if isinstance(func, ast.Attribute) and func.attr == "cuda":
            return True
        if isinstance(func, ast.Attribute) and func.attr == "to":
            target = call.args[0] if call.args else keyword(call, "device")
            return target is not None and not self.script.value(target).kinds & {DTYPE, HOST}
        if isinstance(func, ast.Attribute) and func.attr == "type":
            return self._is_cuda_type(call.args[0]) if call.args else False
        name = name_of(func)
        if _MOVING.search(name):
            return True
        return any(self.script.value(a).has(DEVICE) for a in call.args[1:])

    def _is_cuda_type(self, node: ast.expr) -> bool:
        """`torch.cuda.FloatTensor`, or a name that is bound to it, be it on a condition."""
        made = reach([node], lambda each: sources(self.script, each))
        return any(cuda_type(self.script, each) is not None for each in made)


def _on_host(moved: set[Part], host: set[Part]) -> tuple[int | str, ...]:
    """Return the parts that are needed on the host, if they are distinct from the parts that are moved."""
    known = [part for part in host | moved if part is not None]
    if None in host or moved <= host or len(set(map(type, known))) > 1:
        return ()  # an index and a name may be the same part
    return tuple(part for part in host if part is not None)


def _of_other_entries(assign: ast.Assign, entry: ast.AST | None) -> bool:
    """Return True if `assign` stores under a constant, and `entry` is read under another: `x[0] = ...` and `x[1]`."""
    keys = [t.slice for t in assign.targets if isinstance(t, ast.Subscript)]
    read = entry.slice if isinstance(entry, ast.Subscript) else None
    constants = [key for key in (read, *keys) if isinstance(key, ast.Constant)]
    return len(constants) == len(keys) + 1 and all(
        key.value != constants[0].value for key in constants[1:]
    )


def _comprehension(script: ParsedFile, key: ast.Name) -> ast.AST | None:
    """Return the comprehension whose variable is `key`."""
    found = script.index.scope(key).find(key.id)
    return found[0].node if found and isinstance(found[0].node, ast.DictComp) else None


def _part(path: Sequence[int]) -> Part:
    """Return the index of the part that `path` leads to."""
    return path[0] if path and path[0] != ITERATED else None


def _end(node: ast.stmt | ast.expr) -> Place:
    return node.end_lineno or node.lineno, node.end_col_offset or 0


def _is_next(node: ast.AST) -> TypeGuard[ast.Call]:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "next"


def _key(index: ast.expr) -> Part:
    """The key of `batch[0]`, `batch["x"]`; None for any other."""
    if isinstance(index, ast.Constant) and type(index.value) in (int, str):
        return index.value  # type: ignore[return-value]
    return None


def _walk(body: Sequence[ast.AST]) -> Iterator[ast.AST]:
    for statement in body:
        yield from walk(statement)


def _is_assigned(assign: ast.AST | None, value: ast.expr) -> bool:
    return isinstance(assign, ast.Assign) and assign.value is value


def _asks_identity(node: ast.Compare) -> bool:
    return all(isinstance(op, (ast.Is, ast.IsNot)) for op in node.ops)
