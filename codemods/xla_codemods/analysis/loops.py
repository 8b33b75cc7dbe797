"""Loops as syntax: what runs in each iteration, names of what can happen there, and common names of loss scalers."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

from ..flow.iterables import iterable_of
from ..patterns import Pattern
from .bindings import FunctionNode
from .nodes import CHILDREN, DEFINITIONS, LEAVES, LOOPS
from .syntax import name_of

# A loop statement, or a comprehension: `[step(x) for x in loader]`.
LoopNode = ast.For | ast.AsyncFor | ast.While | ast.ListComp | ast.GeneratorExp
_BARRIERS = frozenset({*LOOPS, *DEFINITIONS})

# What hands on the elements of its first argument.
PASSING = frozenset(
    "enumerate tqdm trange_tqdm islice cycle iter reversed progress_bar track prefetch".split()
)
# The same as methods, of an object that reports progress.
PASSING_METHODS = frozenset("log_every tqdm track progress_bar islice cycle".split())
# Names that by themselves say that something is a model.
MODEL_NAME = Pattern(
    r"(?:^|_)(?:model|net|network|generator|discriminator|encoder|decoder|backbone|critic|actor|policy|teacher|student"
    r"|net[a-z]?|unet|vae|gan|classifier)(?:_?[a-z0-9]{0,3})?$",
    re.IGNORECASE,
)
_ONE_LOADER = Pattern(r"loader(?!s)|(?:^|_)dl(?:_|$)|(?:^|_)batches$", re.IGNORECASE)

# What happens in a loop: gradients are computed, an optimizer steps, a model is called, a step is marked.
BACKWARD, STEP, FORWARD, MARK = "backward", "step", "forward", "mark"
GRADIENTS = "gradients"  # requested by name: `torch.autograd.grad`
ELSEWHERE = "elsewhere"  # a function of another module computes gradients
TRAINING = frozenset({BACKWARD, STEP, ELSEWHERE})


class LoopEffects(Protocol):
    """A loop of which is known what happens in it: `training.Loop`, as rooms below it see it."""

    @property
    def node(self) -> LoopNode:
        """The statement, or the comprehension."""
        ...

    @property
    def body(self) -> Sequence[ast.AST]:
        """What runs in each iteration."""
        ...

    @property
    def effects(self) -> frozenset[str]:
        """Of `BACKWARD`, `STEP`, `FORWARD`, `MARK`, `GRADIENTS` and `ELSEWHERE` those that happen in it."""
        ...


def body_of(node: LoopNode) -> Sequence[ast.AST]:
    """What runs in each iteration of a loop or comprehension."""
    if isinstance(node, (ast.ListComp, ast.GeneratorExp)):
        return [node.elt]
    return node.body


def outside_loops(body: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """Every node of `body` that is not in an inner loop or definition; an inner loop's header counts."""
    stack: list[ast.AST] = list(body)
    stack.reverse()
    while stack:
        node = stack.pop()
        yield node
        kind = type(node)
        if kind in _BARRIERS:
            if kind not in DEFINITIONS:
                stack.append(node.test if kind is ast.While else node.iter)  # type: ignore[attr-defined]
            continue
        if kind not in LEAVES:
            below = CHILDREN[kind](node)
            below.reverse()
            stack += below


def calls_outside_loops(file: object, function: FunctionNode) -> list[ast.Call]:
    """Return the calls of `function`, in `file`, that are not in an inner loop or definition."""
    return [node for node in outside_loops(function.body) if isinstance(node, ast.Call)]


def is_called_a_loader(node: ast.expr | None) -> bool:
    """True if what is iterated is a data loader by its name: `train_loader`, `enumerate(tqdm(self.loader_train))`."""
    while isinstance(node, ast.Call) and node.args:
        func = node.func
        if isinstance(func, ast.Attribute) and func.attr not in PASSING_METHODS:
            return False
        if isinstance(func, ast.Name) and func.id not in PASSING:
            return False
        node = node.args[0]
    name = name_of(node)
    return _ONE_LOADER.search(name) is not None


def is_called_a_model(node: ast.expr) -> bool:
    """True if what is called is a model by its name: `model(x)`, `self.netG(x)`."""
    name = name_of(node)
    return MODEL_NAME.search(name) is not None


def gone_through(iterated: ast.expr | None, path: tuple[int, ...]) -> str:
    """What a loop over `iterated` takes the part at `path` of each element from: `self.nets` for the 1 of `self.nets.items()`."""
    if iterated is None:
        return ""
    iterable, path = iterable_of(iterated, path)
    match iterable:
        case ast.Call(func=ast.Attribute(value=owner, attr="items")) if path[:1] == (1,):
            return ast.unparse(owner)
        case ast.Call(func=ast.Attribute(value=owner, attr="values")):
            return ast.unparse(owner)
    return ast.unparse(iterable)


# Names that by themselves say what they are; used only where the analysis cannot see the value.
OPTIMIZER_NAME = Pattern(r"(?:^|_)opt(?:im(?:izer)?)?s?(?:_?[a-z0-9]{0,4})?$|optim", re.IGNORECASE)


def is_called_a_scaler(node: ast.expr) -> bool:
    """Return True if `node` is called a scaler."""
    return name_of(node).lower().endswith("scaler")


def scaled_by_name(call: ast.Call) -> ast.expr | None:
    """`loss` of `loss_scaler(loss, optimizer, ...)`, as timm and MAE have it: backward, clipping and step in one."""
    match call.args:
        case [loss, ast.Name(id=name) | ast.Attribute(attr=name), *_] if is_called_a_scaler(
            call.func
        ):
            return loss if OPTIMIZER_NAME.search(name) else None
    return None
