"""What follows a training step in its block: a mark, or a read for which the step has to be launched."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ..inference import library_types
from ..inference.values import DEVICE, HOST
from ..nodes import walk
from .ranks.divergence import has_replicas, may_be_alone
from .training import FORWARD, MARK, Loop

if TYPE_CHECKING:
    from ..script import Script

_READS = frozenset({"item", "tolist", "numpy", "cpu", "state_dict"})
_SIMPLE = (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Expr)
_CLOSURES = frozenset(
    {f"{library_types.RUNTIME}.add_step_closure", "torch_xla.core.xla_model.add_step_closure"}
)
_CONTEXTS = frozenset({f"{library_types.RUNTIME}.marked_step", "torch_xla.step"})


def marked_after(script: Script, anchor: ast.stmt) -> bool:
    """True if a mark follows in the same block, or the step is a context that ends with one."""
    if _is_in_a_context(script, anchor):
        return True
    block = script.block(anchor)
    return any(MARK in script.training.effects_of([s]) for s in block[block.index(anchor) + 1 :])


def _is_in_a_context(script: Script, anchor: ast.stmt) -> bool:
    """`with xla.marked_step():`."""
    for node in (anchor, *script.ancestors(anchor)):
        if isinstance(node, ast.With):
            asked = [i.context_expr for i in node.items if isinstance(i.context_expr, ast.Call)]
            if any(script.dotted(call.func) in _CONTEXTS for call in asked):
                return True
        elif isinstance(node, (ast.For, ast.While, ast.FunctionDef, ast.AsyncFunctionDef)):
            return False
    return False


def read_after(script: Script, anchor: ast.stmt) -> bool:
    """True if something is read on the host behind `anchor`, in its block; or may be by one of several replicas."""
    block = script.block(anchor)
    behind = block[block.index(anchor) + 1 :]
    if any(reads(script, s) for s in behind):
        return True
    return has_replicas(script) and any(may_be_alone(script, s) for s in behind)


def reads(script: Script, statement: ast.stmt) -> bool:
    """True if `statement` fetches a tensor: `.item()` and its like, `print(loss)`, `float(loss)`, saving."""
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        if script.dotted(statement.value.func) in _CLOSURES:
            return False  # it is called when the mark has been made
    for node in walk(statement):
        if isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else ""
            if (name in _READS and not node.args) or name == "save":
                return True
            if name == "to" and node.args and script.value(node.args[0]).kinds >= {DEVICE, HOST}:
                return True
            if isinstance(node.func, ast.Name) and node.func.id in {"print", "float", "int"}:
                if any(script.on_accelerator(a) for a in node.args):
                    return True
        elif isinstance(node, ast.FormattedValue) and script.on_accelerator(node.value):
            return True
    return False


def reads_in_each_turn(script: Script, loop: Loop) -> bool:
    """True if something is fetched in every iteration, whatever the conditions, behind the forward pass."""
    computed = False
    for statement in _sure(loop.body):
        computed = computed or FORWARD in script.training.effects_of([statement])
        if computed and not isinstance(statement, ast.With) and reads(script, statement):
            return True
    return False


def _sure(body: Sequence[ast.AST]) -> Iterator[ast.stmt]:
    """The statements that run in every iteration, those in `with` blocks included."""
    for statement in body:
        if isinstance(statement, _SIMPLE):
            yield statement
        elif isinstance(statement, ast.With):
            yield from _sure(statement.body)
