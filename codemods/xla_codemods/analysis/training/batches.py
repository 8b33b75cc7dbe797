"""The use of a batch in the body of a loop: moved to the device, or needed on the host.

A device loader may stand around a loader only if every use of a batch would also do with tensors on the device:
moved there anyway, or asked for no more than its length and shape.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from ...patterns import Pattern
from ..devices.tensor_types import cuda_type
from ..inference.values import DEVICE, DTYPE, HOST, MODULE, NUMBER
from ..loops import LoopNode, body_of
from ..nodes import walk
from ..scopes import FunctionNode
from ..syntax import keyword, name_of, parameter_for

if TYPE_CHECKING:
    from ..parsed_file import ParsedFile

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
_QUESTIONS = frozenset({"len", "isinstance", "type", "id", "hasattr", "issubclass"})
_PASSED_THROUGH = frozenset(
    (
        "float long int double half bool view reshape squeeze unsqueeze permute transpose "
        "contiguous flatten t detach requires_grad_ clone pin_memory type flip expand repeat "
        "values items pop get copy"
    ).split()
)
_MAPPING = frozenset({"map", "tree_map", "apply", "recursive_apply", "starmap"})
_DEPTH = 3

# A place in the source: line, column.
Place = tuple[int, int]
_END: Place = (10**9, 0)


# A part of a batch: where it stands in a tuple, its key, its field; None is all of it.
Part = int | str | None


class BatchFlow(NamedTuple):
    """`moved`: at least one use moves the batch to the device, and none needs it on the host.
    `host` names the first use that does; `parts` are those that all such uses are of, where others are moved.
    """

    moved: bool
    moves: tuple[ast.AST, ...]
    host: ast.AST | None
    parts: tuple[int | str, ...] = ()


class _Uses:
    """What is done with a batch, or with a part of it."""

    def __init__(self, part: Part = None) -> None:
        self.part = part
        self.moves: list[tuple[ast.AST, Part]] = []
        self.host: list[tuple[ast.AST, Part]] = []

    def of(self, part: Part) -> _Uses:
        """The same, for uses of a part; parts of a part are the part's."""
        inner = _Uses(part if self.part is None else self.part)
        inner.moves, inner.host = self.moves, self.host
        return inner

    def add_move(self, node: ast.AST) -> None:
        self.moves.append((node, self.part))

    def add_host(self, node: ast.AST) -> None:
        self.host.append((node, self.part))

    def parts_on_host(self) -> tuple[int | str, ...]:
        """The parts that are needed on the host, if they are distinct from the parts that are moved."""
        host = {part for _, part in self.host}
        moved = {part for _, part in self.moves}
        told = [part for part in host | moved if part is not None]
        if None in host or moved <= host or len(set(map(type, told))) > 1:
            return ()  # an index and a name may be the same part
        return tuple(part for part in host if part is not None)


class Batches:
    """The flows of one script's loops."""

    def __init__(self, script: ParsedFile) -> None:
        self.script = script
        self._flows: dict[tuple[ast.AST, bool], BatchFlow] = {}

    def flow(self, loop: LoopNode, *, own: bool = False) -> BatchFlow:
        """What the body of `loop` does with the batches that it is fed; `own`: with those that it iterates over."""
        key = loop, own
        if key not in self._flows:
            uses = _Uses()
            for name, start, part in self._own_names(loop) if own else self._fed_names(loop):
                self._follow(name, start, body_of(loop), uses.of(part), 0)
            moved = bool(uses.moves) and not uses.host
            moves = tuple(node for node, _ in uses.moves)
            host = min((node for node, _ in uses.host), key=_start, default=None)
            parts = () if self._is_zipped(loop) else uses.parts_on_host()
            self._flows[key] = BatchFlow(moved, moves, host, parts)
        return self._flows[key]

    def _fed_names(self, loop: LoopNode) -> Iterator[tuple[str, Place, Part]]:
        """Names that hold (parts of) a batch, with the place behind which they do."""
        yield from self._own_names(loop)
        if isinstance(loop, (ast.ListComp, ast.GeneratorExp)):
            return
        for node in _walk(loop.body):
            if isinstance(node, ast.Assign) and _is_next(node.value):
                for target in node.targets:
                    yield from ((name, _end(node), part) for name, part in _parts(target))

    def _own_names(self, loop: LoopNode) -> Iterator[tuple[str, Place, Part]]:
        """Those of the loop's target."""
        if isinstance(loop, (ast.ListComp, ast.GeneratorExp)):
            for name, part in _parts(loop.generators[0].target):
                yield name, _start(loop), part
            return
        if isinstance(loop, (ast.For, ast.AsyncFor)):
            for target in self._batch_targets(loop):
                yield from ((name, _start(loop), part) for name, part in _parts(target))

    def _is_zipped(self, loop: LoopNode) -> bool:
        """Return True if the parts of the loop's values may be batches of several loaders: `zip(a, b)`, before `iter` and the like."""
        work: list[ast.expr] = []
        if isinstance(loop, (ast.ListComp, ast.GeneratorExp)):
            work.append(loop.generators[0].iter)
        else:
            if isinstance(loop, (ast.For, ast.AsyncFor)):
                work.append(loop.iter)
            work += [
                node for node in _walk(loop.body) if isinstance(node, ast.expr) and _is_next(node)
            ]
        seen: set[str] = set()
        while work:
            for node in walk(work.pop()):
                if isinstance(node, ast.Call) and "zip" in ast.unparse(node.func):
                    return True
                if isinstance(node, ast.Name) and node.id not in seen:
                    seen.add(node.id)
                    work += [b.value for b in (self.script.bindings(node)) if b.value is not None]
        return False

    def _batch_targets(self, loop: ast.For | ast.AsyncFor) -> list[ast.expr]:
        """The loop's target without the index of `enumerate`."""
        if isinstance(loop.target, ast.Tuple) and len(loop.target.elts) == 2:
            element = self.script.value(loop.iter).iterated()
            if (element.items and element.items[0].has(NUMBER)) or _has_enumerate(
                self.script.only_value(loop.iter) or loop.iter
            ):
                return [loop.target.elts[1]]
        return [loop.target]

    def _follow(
        self, name: str, start: Place, body: Sequence[ast.AST], uses: _Uses, depth: int
    ) -> None:
        """Classify every use of `name` in `body` from `start` on, until it is rebound to what was moved."""
        end = self._moved_at(name, body, start)
        for node in _walk(body):
            if isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Load):
                if start <= _start(node) <= end:
                    self._classify(node, body, uses, depth)

    def _moved_at(self, name: str, body: Sequence[ast.AST], start: Place) -> Place:
        """The last place at which `name` is still what the loader gave: it is rebound to the moved one there."""
        for node in _walk(body):
            if not isinstance(node, ast.Assign) or _start(node) < start:
                continue
            if name in {n for t in node.targets for n in _names(t)} and self._moves_something(
                node.value
            ):
                return _end(node)
        return _END

    def _moves_something(self, node: ast.AST) -> bool:
        return any(isinstance(part, ast.Call) and self.is_move(part) for part in walk(node))

    def is_move(self, call: ast.Call) -> bool:
        """`x.to(device)`, `x.cuda()`, `to_device(x, ...)`."""
        func = call.func
        if isinstance(func, ast.Attribute) and func.attr == "cuda":
            return True
        if isinstance(func, ast.Attribute) and func.attr == "to":
            target = call.args[0] if call.args else keyword(call, "device")
            return (
                target is not None
                and not _is_dtype(target)
                and not self.script.value(target).kinds & {DTYPE, HOST}
            )
        if isinstance(func, ast.Attribute) and func.attr == "type":
            return self._is_cuda_type(call.args[0]) if call.args else False
        name = name_of(func)
        if _MOVING.search(name):
            return True
        return any(self.script.value(a).has(DEVICE) for a in call.args[1:])

    def _is_cuda_type(self, node: ast.expr, depth: int = 0) -> bool:
        """`torch.cuda.FloatTensor`, or a name that is bound to it, be it on a condition."""
        if cuda_type(self.script, node) is not None:
            return True
        if isinstance(node, ast.IfExp):
            return self._is_cuda_type(node.body, depth) or self._is_cuda_type(node.orelse, depth)
        return depth < _DEPTH and any(
            binding.whole is not None and self._is_cuda_type(binding.whole, depth + 1)
            for binding in self.script.bindings(node)
        )

    def _classify(self, node: ast.expr, body: Sequence[ast.AST], uses: _Uses, depth: int) -> None:
        """One use of a batch, or of a part of it, by what stands around it."""
        parent = self.script.parent(node)
        if isinstance(parent, ast.Attribute):
            self._attribute(node, parent, body, uses, depth)
        elif isinstance(parent, ast.Call):
            self._argument(node, parent, uses, depth)
        elif isinstance(parent, ast.keyword):
            call = self.script.parent(parent)
            assert isinstance(call, (ast.Call, ast.ClassDef))
            if isinstance(call, ast.Call):
                self._argument(node, call, uses, depth)
        elif isinstance(parent, ast.Subscript) and parent.value is node:
            if isinstance(parent.ctx, ast.Load):  # else it is put back: `batch[k] = ...`
                self._classify(parent, body, uses.of(_key(parent.slice)), depth)
        elif isinstance(parent, ast.Starred):
            self._classify(parent, body, uses, depth)
        elif isinstance(parent, ast.Assign) and parent.value is node:
            self._renamed(parent, body, uses, depth)
        elif isinstance(parent, (ast.comprehension, ast.For)) and parent.iter is node:
            self._iterated(node, parent, body, uses, depth)
        elif isinstance(parent, (ast.Tuple, ast.List)) and isinstance(
            self.script.parent(parent), ast.Assign
        ):
            self._renamed(self.script.parent(parent), body, uses, depth, element=node)  # type: ignore[arg-type]
        elif isinstance(parent, (ast.Compare, ast.Delete, ast.Expr)):
            if isinstance(parent, ast.Compare) and not _asks_identity(parent):
                uses.add_host(node)
        elif isinstance(parent, ast.IfExp) and parent.test is not node:
            self._classify(parent, body, uses, depth)
        else:
            uses.add_host(node)

    def _attribute(
        self,
        node: ast.expr,
        parent: ast.Attribute,
        body: Sequence[ast.AST],
        uses: _Uses,
        depth: int,
    ) -> None:
        outer = self.script.parent(parent)
        if isinstance(outer, ast.Call) and outer.func is parent:
            if self.is_move(outer):
                uses.add_move(outer)
            elif parent.attr in _PASSED_THROUGH:
                taken = (
                    _key(outer.args[0]) if parent.attr in {"get", "pop"} and outer.args else None
                )
                self._classify(outer, body, uses.of(taken), depth)
            elif parent.attr not in _ASKED:
                uses.add_host(node)
        elif parent.attr not in _ASKED:
            part = None if parent.attr in _OF_TENSORS else parent.attr
            self._classify(parent, body, uses.of(part), depth)

    def _argument(self, node: ast.expr, call: ast.Call, uses: _Uses, depth: int) -> None:
        """A batch handed to a call: to one that moves it, to one that only asks, or into a local function."""
        func = call.func
        if self.is_move(call) and call.func is not node:
            uses.add_move(call)
            return
        name = func.id if isinstance(func, ast.Name) else getattr(func, "attr", "")
        if name in _QUESTIONS:
            return
        if name in _MAPPING and self._moves_something(call):
            uses.add_move(call)
            return
        if name in {"enumerate", "zip", "list", "tuple", "dict", "Variable"}:
            self._classify(call, [self.script.statement(call)], uses, depth)
            return
        function = self._local(call)
        if function is not None and depth < _DEPTH:
            is_method = isinstance(self.script.parent(function), ast.ClassDef)
            parameter = parameter_for(node, function, call, skip_self=is_method)
            if parameter is not None:
                self._follow(parameter, (0, 0), function.body, uses, depth + 1)
                return
        uses.add_host(node)

    def _local(self, call: ast.Call) -> FunctionNode | None:
        """The local function or method that `call` calls, unless it is a module's forward."""
        is_module = self.script.value(call.func).has(MODULE)
        return None if is_module else self.script.function_of(call.func)

    def _renamed(
        self,
        assign: ast.Assign,
        body: Sequence[ast.AST],
        uses: _Uses,
        depth: int,
        element: ast.expr | None = None,
    ) -> None:
        """`x, y = batch` and `inputs = batch["x"]`: the new names carry it on."""
        for target in assign.targets:
            if element is not None and isinstance(assign.value, (ast.Tuple, ast.List)):
                elements = getattr(target, "elts", None)
                index = assign.value.elts.index(element)
                names = (
                    _parts(elements[index])
                    if elements and index < len(elements)
                    else [(name, None) for name in _names(target)]
                )
            else:
                names = _parts(target)
            for name, part in names:
                self._follow(name, _end(assign), body, uses.of(part), depth)
            if not names:
                uses.add_host(assign)

    def _iterated(
        self,
        node: ast.expr,
        parent: ast.comprehension | ast.For,
        body: Sequence[ast.AST],
        uses: _Uses,
        depth: int,
    ) -> None:
        """`{k: v.to(device) for k, v in batch.items()}` and `for k in batch: ...`."""
        holder = self.script.parent(parent) if isinstance(parent, ast.comprehension) else parent
        assert holder is not None
        found = _Uses(uses.part)
        names = set(_names(parent.target))
        for inner in walk(holder):
            if (
                isinstance(inner, ast.Name)
                and inner.id in names
                and isinstance(inner.ctx, ast.Load)
            ):
                above = self.script.parent(inner)
                if isinstance(above, (ast.Subscript, ast.DictComp, ast.Tuple)) and not (
                    isinstance(above, ast.Subscript) and above.value is inner
                ):
                    continue  # a key
                self._classify(inner, body, found, depth)
        moved = self._moves_something(holder)
        uses.moves += found.moves or ([(holder, uses.part)] if moved else [])
        if not found.moves and not moved:
            uses.host += found.host


def _has_enumerate(node: ast.expr) -> bool:
    """True if `enumerate` is the outermost of what yields pairs: `enumerate(x)`, `tqdm(enumerate(x))`."""
    while isinstance(node, ast.Call) and node.args:
        if isinstance(node.func, ast.Name) and node.func.id == "enumerate":
            return True
        node = node.args[0]
    return False


def _start(node: ast.AST) -> Place:
    return node.lineno, node.col_offset  # type: ignore[attr-defined]


def _end(node: ast.stmt | ast.expr) -> Place:
    return node.end_lineno or node.lineno, node.end_col_offset or 0


def _is_next(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "next"


def _names(target: ast.AST) -> list[str]:
    return [
        n.id
        for n in walk(target)
        if isinstance(n, ast.Name) and isinstance(n.ctx, (ast.Store, ast.Load))
    ]


def _parts(target: ast.AST) -> list[tuple[str, Part]]:
    """The names in what a batch is given to, with the part of it that each holds, or None."""
    if not isinstance(target, (ast.Tuple, ast.List)):
        return [(name, None) for name in _names(target)]
    found: list[tuple[str, Part]] = []
    starred = False
    for index, element in enumerate(target.elts):
        starred = starred or isinstance(element, ast.Starred)
        found += [(name, None if starred else index) for name in _names(element)]
    return found


def _key(index: ast.expr) -> Part:
    """The key of `batch[0]`, `batch["x"]`; None for any other."""
    if isinstance(index, ast.Constant) and type(index.value) in (int, str):
        return index.value  # type: ignore[return-value]
    return None


def _walk(body: Sequence[ast.AST]) -> Iterator[ast.AST]:
    for statement in body:
        yield from walk(statement)


def _is_dtype(node: ast.expr) -> bool:
    return (
        isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == "torch"
    )


def _asks_identity(node: ast.Compare) -> bool:
    return all(isinstance(op, (ast.Is, ast.IsNot)) for op in node.ops)
