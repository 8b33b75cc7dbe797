"""What feeds a loop: the loader below `enumerate`, `tqdm`, `zip`, `iter` and `next`, and whether a device loader goes
around it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator
from functools import cached_property
from typing import NamedTuple

from ...flow.closure import reach, trace
from ...patterns import Pattern
from ..frameworks.accelerator import uses_accelerate
from ..inference.values import DATASET, DEVICE_LOADER, LOADER, MODULE, NUMBER, PARAMETERS, UNKNOWN
from ..loops import FORWARD, PASSING, PASSING_METHODS, TRAINING, LoopEffects, outside_loops
from ..nodes import walk
from ..parsed_file import ParsedFile
from ..projects.early_fetches import Effects, is_fetched_early
from ..scopes import Binding
from ..syntax import keyword, name_of
from .batches import Batches, BatchFlow
from .changed_batches import changes_kept_batches
from .collating import LoadingNode, moves_all

# Loops over single samples: a data set, a list of texts or of files, instead of a loader of batches.

_SAMPLES = Pattern(
    r"(?:^|_)(?:data_?sets?|(?:data|train|valid|val|test)_?set|documents|docs|examples|files|images|lines|paths|prompts"
    r"|queries|records|samples|sentences|strings|texts)$",
    re.IGNORECASE,
)
_BATCH = Pattern(r"batch", re.IGNORECASE)
_TEXT_METHODS = frozenset("encode endswith lower rstrip splitlines startswith strip".split())
_SAME = frozenset({"cuda", "float", "long", "to"})


def gives_samples(loop: ast.AST, iterated: ast.expr) -> bool:
    """Return True if the elements of `iterated` are single samples.

    The uses of an element in `loop` decide. Its name decides if they do not tell.
    """
    target = getattr(loop, "target", None)
    if not isinstance(target, ast.expr):
        return False
    name = ast.unparse(iterated).rpartition(".")[2]
    if _BATCH.search(name) or _BATCH.search(ast.unparse(target)):
        return False
    nodes = list(walk(loop))
    start = [node.id for node in walk(target) if isinstance(node, ast.Name)]
    elements = reach(start, lambda element: _names_of(nodes, element)).keys()
    if any(_is_of_one_sample(node, elements) for node in nodes):
        return True
    return bool(_SAMPLES.search(name)) and not any(_counts_samples(n, elements) for n in nodes)


def _names_of(nodes: list[ast.AST], element: str) -> list[str]:
    """Return the names that are assigned `element`, or an entry of it."""
    return [
        target.id
        for node in nodes
        if isinstance(node, ast.Assign) and _is_element(node.value, (element,))
        for target in node.targets
        if isinstance(target, ast.Name)
    ]


def _is_of_one_sample(node: ast.AST, elements: Collection[str]) -> bool:
    """Return True for `x.unsqueeze(0)`, `x[None]`, `torch.stack([x])`, `open(x)` and `x.strip()`."""
    match node:
        case (
            ast.Call(
                func=ast.Attribute(value=whole, attr="unsqueeze"), args=[ast.Constant(value=0)]
            )
            | ast.Subscript(
                value=whole,
                slice=(ast.Constant(value=None) | ast.Tuple(elts=[ast.Constant(value=None), *_])),
            )
            | ast.Call(func=ast.Attribute(attr="stack" | "cat"), args=[ast.List(elts=[whole])])
            | ast.Call(
                func=ast.Attribute(attr="open") | ast.Name(id="open"),
                args=[ast.Name() as whole, *_],
            )
        ):
            return _is_element(whole, elements)
        case ast.Call(func=ast.Attribute(value=ast.Name() as whole, attr=name)):
            return name in _TEXT_METHODS and _is_element(whole, elements)
    return False


def _counts_samples(node: ast.AST, elements: Collection[str]) -> bool:
    """Return True for `x.size(0)`, the number of samples of a batch."""
    match node:
        case ast.Call(func=ast.Attribute(value=whole, attr="size"), args=[ast.Constant(value=0)]):
            return _is_element(whole, elements)
    return False


def _is_element(node: ast.expr, elements: Collection[str]) -> bool:
    """Return True if `node` is one of `elements`, or an entry of one, also after a move."""
    while True:
        match node:
            case ast.Name(id=name):
                return name in elements
            case ast.Call(func=ast.Attribute(value=inner, attr=name)) if name in _SAME:
                node = inner
            case ast.Subscript(value=inner, slice=ast.Constant(value=str())):
                node = inner
            case _:
                return False


_LOADER_NAME = Pattern(
    r"loader|(?:^|_)dl(?:_|$)|dataloader|train_iter|valid_iter|test_iter|batches", re.IGNORECASE
)
_LOADING_METHODS = frozenset({"__getitem__", "__getitems__", "__iter__"})


def is_called_a_loader(name: str) -> bool:
    """True if a name says that it is a loader's."""
    return _LOADER_NAME.search(name) is not None


class Driver(NamedTuple):
    """What a loop is fed from: the expression that is iterated, below `enumerate`, `tqdm` and the like."""

    node: ast.expr
    cached: bool = False  # `itertools.cycle`: the loader itself is only read once


class Feeding:
    """What feeds the loops of one script."""

    def __init__(self, script: ParsedFile, batches: Batches, effects_of: Effects) -> None:
        self.script = script
        self.batches = batches
        self.effects_of = effects_of

    def drivers(self, node: ast.expr) -> list[Driver]:
        """Return the iterables below wrappers such as `enumerate(tqdm(loader))` and names bound to them.

        If they are unknown, the name of a wrapper is the iterable: `bar` of `bar = tqdm(load())`.
        """
        reached = reach([Driver(node)], self._wrapped)
        ends = [driver for driver in reached if not self._wrapped(driver)]
        names = (driver for end in ends for driver in trace(reached, end))
        found = [end for end in ends if self._is_iterable(end)]
        return found or list(filter(self._is_iterable, names))[:1]

    def _is_iterable(self, driver: Driver) -> bool:
        node, value = driver.node, self.script.value(driver.node)
        if value.has(LOADER) or value.has(DEVICE_LOADER):
            return True
        if value.kinds & {NUMBER, MODULE, PARAMETERS} or value.items is not None:
            return False
        is_named = isinstance(node, (ast.Name, ast.Attribute, ast.Subscript))
        return is_named and not _counts(self.script.bindings(node))

    def _wrapped(self, driver: Driver) -> list[Driver]:
        """Return what a wrapper, or a name that is bound to one, iterates over."""
        node, is_cached = driver
        match node:
            case ast.Name():
                bindings = self.script.reaching(node)
                behind = [self._bound(b, is_cached, len(bindings) > 1) for b in bindings]
                return [found for each in behind for found in each] if all(behind) else []
            case ast.Call(func=func, args=args):
                dotted, name = self.script.dotted(func) or "", name_of(func)
                if name == "zip" or dotted.endswith("zip_longest"):
                    return [Driver(each, is_cached) for each in args]
                if name in PASSING or (name in PASSING_METHODS and isinstance(func, ast.Attribute)):
                    return [Driver(each, is_cached or name == "cycle") for each in args[:1]]
        return []

    def _bound(self, binding: Binding, is_cached: bool, is_one_of_several: bool) -> list[Driver]:
        """Return what `binding` iterates over; of several, one may be another name: `bar = loader`, then `bar = tqdm(bar)`."""
        match binding:
            case Binding(how="assign" | "with", path=(), value=ast.Call() as made):
                return self._wrapped(Driver(made, is_cached))
            case Binding(how="assign", path=(), value=ast.Name() as other) if is_one_of_several:
                return [Driver(other, is_cached)]
        return []

    def next_drivers(self, loop: LoopEffects) -> list[Driver]:
        """`while True: batch = next(it)`: the loaders whose `iter(...)` the loop takes from."""
        found: list[Driver] = []
        if not self.script.index.calls_of("next"):
            return found
        for node in outside_loops(loop.body):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Name)
                and node.func.id == "next"
                and node.args
            ):
                found += self._iterated(node.args[0])
        return found

    def _iterated(self, node: ast.expr) -> list[Driver]:
        """The loaders behind an iterator: every `iter(loader)` that is bound to it."""
        if isinstance(node, ast.Call):
            return self.drivers(node)
        made = [b.whole for b in self.script.bindings(node)]
        if not all(isinstance(each, ast.Call) for each in made):
            return []
        return [d for call in made if call is not None for d in self.drivers(call)]

    def is_device_loader(self, driver: Driver) -> bool:
        """True if a device loader is iterated already."""
        return self.script.value(driver.node).has(DEVICE_LOADER)

    def is_called_a_loader(self, driver: Driver) -> bool:
        """True if `driver` is a data loader, or is called one."""
        if self.script.value(driver.node).has(LOADER):
            return True
        return is_called_a_loader(ast.unparse(driver.node).rpartition(".")[2])

    def is_loader(self, loop: LoopEffects, driver: Driver) -> bool:
        """True if `driver` is a data loader, or unknown but called one, or fed to a model by `loop`."""
        value = self.script.value(driver.node)
        if value.has(LOADER):
            return True
        if value != UNKNOWN:  # also a list or dict of this file's
            return False
        if self.is_called_a_loader(driver):
            return True
        return bool(loop.effects & {*TRAINING, FORWARD}) and not gives_samples(
            loop.node, driver.node
        )

    def wraps(self, loop: LoopEffects, driver: Driver) -> bool:
        """Return True if a device loader should wrap `driver`: the loop moves its batches to the device,
        and the host needs nothing of them, or only parts that are distinct from the moved parts.
        """
        return (
            not self.is_device_loader(driver)
            and not uses_accelerate(self.script)
            and self.is_loader(loop, driver)
            and not _only_moves(loop)
            and not _gives_loaders(loop.node)
            and not self._changes_a_list(loop, driver)
            and self._is_moved(loop, driver)
            and not is_fetched_early(self.script, loop.node, driver.node, self.effects_of)
        )

    def _changes_a_list(self, loop: LoopEffects, driver: Driver) -> bool:
        is_loader = self.script.value(driver.node).has(LOADER)
        return not is_loader and changes_kept_batches(self.script, loop.node, driver.node)

    def parts_on_host(self, loop: LoopEffects, driver: Driver) -> tuple[int | str, ...]:
        """The parts of the batches that the body of `loop` needs on the host, while it moves others."""
        return self._flow(loop, driver).parts

    def _flow(self, loop: LoopEffects, driver: Driver) -> BatchFlow:
        taken = {found.node for found in self.next_drivers(loop)}
        own = (
            driver.node not in taken
        )  # in `for step in bar: batch = next(it)` `bar` gives no batches
        return self.batches.flow(loop.node, own=own)

    def _is_moved(self, loop: LoopEffects, driver: Driver) -> bool:
        """True if the batches of `loop` go to the device: in its body, or before, in the dataset or collation."""
        flow = self._flow(loop, driver)
        if flow.moves:
            return flow.moved or bool(flow.parts)
        whole = self.moves_of_whole_samples
        return bool(whole) and bool(loop.effects & {*TRAINING, FORWARD})

    @cached_property
    def moves_in_loading(self) -> list[ast.Call]:
        """`.to(device)` and `.cuda()` in datasets' `__getitem__` and in collate functions."""
        return [call for function in self._loading_functions for call in self._moves_in(function)]

    @cached_property
    def moves_of_whole_samples(self) -> frozenset[ast.Call]:
        """Those of functions that move all that they give: of others a part is for the host, as lengths are."""
        return frozenset(
            call
            for function in self._loading_functions
            if moves_all(self.script, function, self.batches.is_move)
            for call in self._moves_in(function)
        )

    @cached_property
    def _loading_functions(self) -> list[LoadingNode]:
        return list(self._found_loading_functions())

    def _found_loading_functions(self) -> Iterator[LoadingNode]:
        if not self.script.source.mentions("dataset", "collate_fn"):
            return
        for definition, scope in self.script.index.of(ast.ClassDef):
            if DATASET in self.script.inference.base_kind(definition, scope):
                for method in definition.body:
                    if isinstance(method, ast.FunctionDef) and method.name in _LOADING_METHODS:
                        yield method
        for call, _ in self.script.index.of(ast.Call):
            collate = keyword(call, "collate_fn")
            if isinstance(collate, ast.Lambda):
                yield collate
            elif collate is not None:
                function = self.script.value(collate).definition
                if isinstance(function, ast.FunctionDef):
                    yield function

    def _moves_in(self, function: ast.AST) -> Iterator[ast.Call]:
        for node in walk(function):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                if node.func.attr in {"to", "cuda"} and self.batches.is_move(node):
                    yield node


def _only_moves(loop: LoopEffects) -> bool:
    """Return True for `[batch.to(device) for batch in batches]`, which keeps all batches, and computes nothing."""
    is_a_list = not isinstance(loop.node, (ast.For, ast.AsyncFor, ast.While))
    return is_a_list and loop.effects.isdisjoint({*TRAINING, FORWARD})


def _gives_loaders(loop: ast.AST) -> bool:
    """Return True for `for loader in loaders`: the elements are called loaders, or the loop stores attributes of them."""
    names = {n.id for n in walk(getattr(loop, "target", loop)) if isinstance(n, ast.Name)}
    if not isinstance(loop, (ast.For, ast.AsyncFor)):
        return False
    return any(map(is_called_a_loader, names)) or any(
        isinstance(node, ast.Attribute)
        and isinstance(node.ctx, ast.Store)
        and isinstance(node.value, ast.Name)
        and node.value.id in names
        for node in walk(loop)
    )


def _counts(bindings: list[Binding]) -> bool:
    """True for the `bar` of `with trange(steps) as bar:` and `bar = tqdm(range(steps))`, which gives numbers."""
    match [binding.value for binding in bindings]:
        case [ast.Call(func=ast.Name(id="trange") | ast.Attribute(attr="trange"))]:
            return True
        case [ast.Call(args=[ast.Call(func=ast.Name(id="range")), *_])]:
            return True
    return False
