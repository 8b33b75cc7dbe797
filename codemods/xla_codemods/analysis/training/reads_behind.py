"""The code after a training step in its block: a mark, or a read that needs the step to be launched."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence

from ...flow.closure import reach
from ..inference import library_types
from ..inference.values import DEVICE, HOST
from ..nodes import FUNCTIONS, children, walk
from ..script import Script
from ..syntax import name_of
from .host_reads.fetching import made_later, reads_in_turns
from .ranks.divergence import has_replicas, may_be_alone
from .training import FORWARD, MARK, Loop

_OF_TENSORS = frozenset({"item", "tolist", "numpy", "cpu"})
_READS = _OF_TENSORS | {"state_dict"}
_SHORT = 3  # statements of a function that only reads
_SIMPLE = (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Expr)
_CLOSURES = frozenset(
    {f"{library_types.RUNTIME}.{name}" for name in ("add_step_closure", "computed", "later")}
    | {"torch_xla.core.xla_model.add_step_closure"}
)
_CONTEXTS = frozenset({f"{library_types.RUNTIME}.marked_step", "torch_xla.step"})


def marked_after(script: Script, anchor: ast.stmt) -> bool:
    """True if a mark follows in the same block, or the step is a context that ends with one."""
    if _is_in_a_context(script, anchor):
        return True
    block = script.block(anchor)
    return any(MARK in script.training.effects_of([s]) for s in block[block.index(anchor) + 1 :])


def _is_in_a_context(script: Script, anchor: ast.stmt) -> bool:
    """`with xla.marked_step():`, or a function that runs in it: decorated, `xla.marked_step()(function)`."""
    for node in (anchor, *script.ancestors(anchor)):
        if isinstance(node, ast.With):
            if any(_is_context(script, item.context_expr) for item in node.items):
                return True
        elif isinstance(node, FUNCTIONS):
            decorated = any(_is_context(script, decorator) for decorator in node.decorator_list)
            return decorated or node.name in script.cached(_wrapped)
        elif isinstance(node, (ast.For, ast.While)):
            return False
    return False


def _is_context(script: Script, node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and script.dotted(node.func) in _CONTEXTS


def _wrapped(script: Script) -> frozenset[str]:
    """The names of functions that are passed to such a context."""
    calls = (call for call, _ in script.index.of(ast.Call) if _is_context(script, call.func))
    given = (call.args[0] for call in calls if call.args)
    return frozenset(name_of(node) for node in given)


def read_after(script: Script, anchor: ast.stmt) -> bool:
    """True if something is read on the host behind `anchor`, in its block; or may be by one of several replicas."""
    block = script.block(anchor)
    behind = block[block.index(anchor) + 1 :]
    if any(reads(script, s) for s in behind):
        return True
    return has_replicas(script) and any(may_be_alone(script, s) for s in behind)


def reads(script: Script, statement: ast.stmt) -> bool:
    """True if `statement` fetches a tensor: `.item()` and its like, `print(loss)`, `float(loss)`, saving; not what XLA503
    has read later.
    """
    nodes = list(_now(script, statement))
    left = script.cached(_left) | script.cached(_left_in_evaluations)
    if any(node in left or _is_of_a_reader(script, node) for node in nodes):
        return True
    found = [node for node in nodes if _fetches(script, node)]
    if not found or not script.reads_later or has_replicas(script):
        return bool(found)  # with several replicas what is read later is launched by itself, too
    later = made_later(script)
    return not all(any(inside in later for inside in walk(node)) for node in found)


def _is_of_a_reader(script: Script, node: ast.AST) -> bool:
    """True if `node` calls a function or method of this file in which XLA503 leaves a read of each step."""
    readers = script.cached(_readers)
    if not readers or not isinstance(node, ast.Call):
        return False
    return script.function_of(node.func) in readers


def _readers(script: Script) -> frozenset[ast.AST]:
    around = (script.function(node) for node in script.cached(_left))
    return frozenset(function for function in around if function is not None)


def _left(script: Script) -> frozenset[ast.AST]:
    """Reads that XLA503 finds in each step and does not defer; with replicas, their effects are launched as well."""
    every = script.reads_later and has_replicas(script)
    found = (read for read in reads_in_turns(script) if read.in_a_step)
    return frozenset(read.node for read in found if every or not read.outcome.edits)


def _left_in_evaluations(script: Script) -> frozenset[ast.AST]:
    """Reads in each turn of a loop that evaluates or samples which are not deferred: `if (token == eos).all(): break`."""
    found = (read for read in reads_in_turns(script) if not read.in_a_step)
    return frozenset(read.node for read in found if not read.outcome.edits)


def _now(script: Script, statement: ast.AST) -> Iterable[ast.AST]:
    """Return what runs with `statement`; closures are called when the mark has been made."""

    def is_closure(node: ast.AST) -> bool:
        return isinstance(node, ast.Call) and script.dotted(node.func) in _CLOSURES

    return reach([statement], lambda node: (c for c in children(node) if not is_closure(c)))


def _fetches(script: Script, node: ast.AST) -> bool:
    if isinstance(node, ast.FormattedValue):
        return script.on_accelerator(node.value)
    if not isinstance(node, ast.Call):
        return False
    name = node.func.attr if isinstance(node.func, ast.Attribute) else ""
    if name == "state_dict" and _is_iterated(script, node):
        return False  # an average of weights: `for name, value in model.state_dict().items()`
    if (name in _READS and not node.args) or name == "save":
        return True
    if name == "to" and node.args and script.value(node.args[0]).kinds >= {DEVICE, HOST}:
        return True
    if isinstance(node.func, ast.Name) and node.func.id in {"print", "float", "int"}:
        return any(script.on_accelerator(a) for a in node.args)
    return _reads_its_argument(script, node)


def _is_iterated(script: Script, state: ast.Call) -> bool:
    part = script.parent(state)
    return (
        isinstance(part, ast.Attribute)
        and part.attr in {"items", "values"}
        and isinstance(call := script.parent(part), ast.Call)
        and isinstance(loop := script.parent(call), ast.For)
        and loop.iter is call
    )


def _reads_its_argument(script: Script, call: ast.Call) -> bool:
    """`to_python_float(loss)`, of a function of this file that does no more than read what it is given."""
    function = script.value(call.func).definition
    if not isinstance(function, ast.FunctionDef) or not call.args or len(function.body) > _SHORT:
        return False
    given = {argument.arg for argument in function.args.args}
    for node in walk(function):
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=attr), args=[]):
                if name in given and attr in _OF_TENSORS:
                    return True
    return False


def reads_in_each_turn(script: Script, loop: Loop) -> bool:
    """True if something is fetched in every iteration, whatever the conditions, behind the forward pass."""
    computed = False
    for statement in _sure(loop.body):
        if isinstance(statement, (ast.If, ast.Assert)):
            if computed and statement in script.cached(_left_in_evaluations):
                return True
            continue
        computed = computed or FORWARD in script.training.effects_of([statement])
        if computed and not isinstance(statement, ast.With) and reads(script, statement):
            return True
    return False


def _sure(body: Sequence[ast.AST]) -> Iterator[ast.stmt]:
    """The statements that run in every iteration, those in `with` blocks included; of an `if` its condition runs."""
    for statement in body:
        if isinstance(statement, (*_SIMPLE, ast.If, ast.Assert)):
            yield statement
        elif isinstance(statement, ast.With):
            yield from _sure(statement.body)
