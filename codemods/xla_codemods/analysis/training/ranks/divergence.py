"""Code that only one replica may run: under a test of the rank, here or in a called function.

On a device it launches what it reads or saves, together with recorded collectives that are not launched yet, such as
the averages of gradients: it then waits for replicas that launch something else (fact 1.41).
"""

from __future__ import annotations

import ast
import builtins
import re
import sys
from collections.abc import Iterable, Iterator
from itertools import chain

from ....flow.calls import methods
from ....flow.closure import reach
from ....patterns import Pattern
from ...bindings import FunctionNode
from ...nodes import FUNCTIONS, walk
from ...parsed_file import ParsedFile
from ...syntax import is_off, name_of, unparsed
from .guards import guard, mentions_rank, rank_names

_OF_REPLICAS = (
    "DistributedDataParallel",
    "DDP",
    "init_process_group",
    "convert_sync_batchnorm",
    "reduce_gradients",
)
_BUILTINS = frozenset(dir(builtins))
_OF_ALL = frozenset({"torch", *sys.stdlib_module_names})
_COMPUTE = ("torch.", "math.", "numpy.", "time.")
# Objects that scripts make on the first replica only, and methods that act there only.
_WRITER = Pattern(
    r"saver|writer|logger|wandb|tensorboard|^tb|^(?:aim_|comet_|mlflow_|neptune_)?run$|log|board",
    re.IGNORECASE,
)
_ACTS = Pattern(
    r"save|checkpoint|ckpt|snapshot|log|eval|valid|test|sampl|generat|report|write|print|dump|record|visuali|plot",
    re.IGNORECASE,
)


def has_replicas(script: ParsedFile) -> bool:
    """True if the script, or another module of its program, has several replicas."""
    if any(script.index.calls_of(name) for name in _OF_REPLICAS):
        return True
    return script.project.mentions(*_OF_REPLICAS[:3])


def may_be_alone(script: ParsedFile, statement: ast.stmt) -> bool:
    """True if some replicas may run a part of `statement` that others do not."""
    return any(separates(script, node) for node in walk(statement))


def separates(script: ParsedFile, node: ast.AST) -> bool:
    """True if `node` is a test, or a call, that some replicas pass, or do something in, and others do not."""
    match node:
        case ast.If(test=test) | ast.IfExp(test=test) | ast.While(test=test):
            return _lets_some_pass(script, test) or _asks_for_a_writer(test)
        case ast.BoolOp():
            return guard(node, rank_names(script)) is not None
        case ast.Match(subject=subject):
            return mentions_rank(subject, rank_names(script))
        case ast.Call(func=func):
            return _hides_something(script, func)
    return False


def _asks_for_a_writer(test: ast.expr) -> bool:
    """`if writer is not None:`, `if self.logger:`."""
    if isinstance(test, ast.BoolOp):
        return any(_asks_for_a_writer(value) for value in test.values)
    if isinstance(test, ast.Compare) and isinstance(test.ops[0], ast.IsNot):
        test = test.left
    last = name_of(test)
    return _WRITER.search(last) is not None


def _hides_something(script: ParsedFile, func: ast.expr) -> bool:
    """A function of the program's that returns early on some replicas, or that is called for what one of them does."""
    name = name_of(func)
    if (script.dotted(func) or "").startswith(_COMPUTE) or name in _BUILTINS:
        return False
    if _ACTS.search(name):
        return True
    sure, methods = _called(script, func)
    if any(_may_hide(script, d) for definition in sure for d in definition.decorator_list):
        return True
    return any(script.cached(acts_alone, definition) for definition in (*sure, *methods))


def _may_hide(script: ParsedFile, decorator: ast.expr) -> bool:
    """True for `@rank_zero_only`; not for Python's own decorators and torch's, which run the function on all."""
    if isinstance(decorator, ast.Call):
        decorator = decorator.func
    if isinstance(decorator, ast.Name) and decorator.id in _BUILTINS:
        return script.index.scope(decorator).find(decorator.id) is not None
    return (script.dotted(decorator) or "").partition(".")[0] not in _OF_ALL


def _called(script: ParsedFile, func: ast.expr) -> tuple[list[FunctionNode], list[FunctionNode]]:
    """The functions of this file that are called: those known, or else methods of that name, of whatever class.

    `for callback in callbacks: callback.on_step(self)` calls such a method.
    """
    definition = script.local_method(func) or script.value(func).definition
    if isinstance(definition, FUNCTIONS):
        return [definition], []
    if definition is not None or not isinstance(func, ast.Attribute) or script.dotted(func):
        return [], []
    return [], script.index.cached(methods).get(func.attr, [])


def acts_alone(script: ParsedFile, definition: FunctionNode) -> bool:
    """True if a part of the function `definition`, or of what it calls in this file, is for some replicas only."""
    functions = _with_called(script, definition)
    tests = (node.test for f in functions for node in walk(f) if isinstance(node, ast.If))
    return any(_lets_some_pass(script, test) for test in tests)


def _with_called(script: ParsedFile, node: ast.AST) -> Iterable[ast.AST]:
    """Return `node` and the functions of this file that it calls, directly or not."""

    def called(each: ast.AST) -> Iterator[ast.AST]:
        for call in (part for part in walk(each) if isinstance(part, ast.Call)):
            yield from chain(*_called(script, call.func))

    return reach([node], called)


def _lets_some_pass(script: ParsedFile, test: ast.expr) -> bool:
    """A test of the rank, or of a name that holds the answer to one: `if not self.enabled:`."""
    return guard(test, rank_names(script)) is not None or _asks_for_a_flag(
        script.cached(_flags), test
    )


def _asks_for_a_flag(flags: frozenset[str], test: ast.expr) -> bool:
    match test:
        case ast.BoolOp(values=values):
            return any(_asks_for_a_flag(flags, value) for value in values)
        case ast.UnaryOp(op=ast.Not(), operand=tested):
            return _asks_for_a_flag(flags, tested)
        case ast.Compare(left=tested, ops=[ast.Is() | ast.IsNot()]):
            return _asks_for_a_flag(flags, tested)
    return isinstance(test, (ast.Name, ast.Attribute)) and name_of(test) in flags


def _flags(script: ParsedFile) -> frozenset[str]:
    """Names that tell replicas apart: `enabled = rank == 0`, `file = open(path) if rank == 0 else None`."""
    found: set[str] = set()
    for node, _ in script.index.of(ast.Assign):
        value = node.value
        tests = isinstance(value, (ast.Compare, ast.BoolOp, ast.UnaryOp, ast.Call))
        chooses = isinstance(value, ast.IfExp) and guard(value.test, rank_names(script)) is not None
        if chooses or (tests and guard(value, rank_names(script)) is not None):
            found.update(filter(None, map(name_of, node.targets)))
    return frozenset(found | _made_by_some(script))


def _made_by_some(script: ParsedFile) -> set[str]:
    """`ema = None`, and then `if rank == 0: ema = EMA(model)`."""
    without, made = set[str](), set[str]()
    for node, _ in script.index.of(ast.Assign):
        names = set(filter(None, map(name_of, node.targets)))
        if is_off(node.value):
            without |= names
        elif isinstance(around := script.parent(node), ast.If):
            if guard(around.test, rank_names(script)) is not None:
                made |= names
    return without & made


_NORM = Pattern(r"clip_grad|grad_norm|total_norm", re.IGNORECASE)


def reads_averages(script: ParsedFile, statement: ast.stmt) -> bool:
    """True if `statement`, or what it calls in this file, has to do with gradients, or with a norm taken of them."""
    has_norms = script.source.mentions("clip_grad", "grad_norm", "total_norm")
    if not has_norms and "grad" not in script.source.names:
        return False
    return any(
        _reads_an_average(script, node, has_norms)
        for part in _with_called(script, statement)
        for node in walk(part)
    )


def _reads_an_average(script: ParsedFile, node: ast.AST, has_norms: bool) -> bool:
    match node:
        case ast.Attribute(attr="grad"):
            return True
        case ast.Call(func=func) if has_norms:
            return _NORM.search(unparsed(func)) is not None
        case ast.Name(ctx=ast.Load()) if has_norms:
            values = (binding.value for binding in script.bindings(node))
            calls = (value for value in values if isinstance(value, ast.Call))
            return any(_NORM.search(unparsed(call.func)) for call in calls)
    return False
