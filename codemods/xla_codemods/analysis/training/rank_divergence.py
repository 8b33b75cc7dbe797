"""What one replica of several may run alone: behind a test of the rank, seen or within a function that is called.

On a device it launches what it reads or saves, and with it the collectives that are recorded and not launched, such as
those of averaged gradients: it then waits for replicas that launch something else (fact 1.41).
"""

from __future__ import annotations

import ast
import builtins
import re
from typing import TYPE_CHECKING

from ...patterns import Pattern
from ..nodes import walk
from .ranks import guard, mentions_rank

if TYPE_CHECKING:
    from ..parsed_file import ParsedFile

_OF_REPLICAS = (
    "DistributedDataParallel",
    "DDP",
    "init_process_group",
    "convert_sync_batchnorm",
    "reduce_gradients",
)
_BUILTINS = frozenset(dir(builtins))
_COMPUTE = ("torch.", "math.", "numpy.", "time.")
# Objects that scripts make on the first replica only, and methods that act there only.
_WRITER = Pattern(r"saver|writer|logger|wandb|tensorboard|^tb|run$|log|board", re.IGNORECASE)
_ACTS = Pattern(
    r"save|checkpoint|ckpt|snapshot|log|eval|valid|test|sampl|generat|report|write|print|dump|record|visuali|plot",
    re.IGNORECASE,
)


def has_replicas(script: ParsedFile) -> bool:
    """True if the script, or another module of its program, has several replicas."""
    if any(script.index.calls_of(name) for name in _OF_REPLICAS):
        return True
    return script.project is not None and script.project.mentions(*_OF_REPLICAS[:3])


def may_be_alone(script: ParsedFile, statement: ast.stmt) -> bool:
    """True if some replicas may run a part of `statement` that others do not."""
    return any(_separates(script, node) for node in walk(statement))


def _separates(script: ParsedFile, node: ast.AST) -> bool:
    match node:
        case ast.If(test=test) | ast.IfExp(test=test) | ast.While(test=test):
            return guard(test) is not None or _asks_for_a_writer(test)
        case ast.BoolOp():
            return guard(node) is not None
        case ast.Match(subject=subject):
            return mentions_rank(subject)
        case ast.Call(func=func):
            return _hides_something(script, func)
    return False


def _asks_for_a_writer(test: ast.expr) -> bool:
    """`if writer is not None:`, `if self.logger:`."""
    if isinstance(test, ast.BoolOp):
        return any(_asks_for_a_writer(value) for value in test.values)
    if isinstance(test, ast.Compare) and isinstance(test.ops[0], ast.IsNot):
        test = test.left
    last = test.attr if isinstance(test, ast.Attribute) else getattr(test, "id", "")
    return _WRITER.search(last) is not None


def _hides_something(script: ParsedFile, func: ast.expr) -> bool:
    """A function of the program's that returns early on some replicas, or that is called for what one of them does."""
    name = func.attr if isinstance(func, ast.Attribute) else getattr(func, "id", "")
    if (script.dotted(func) or "").startswith(_COMPUTE) or name in _BUILTINS:
        return False
    if _ACTS.search(name):
        return True
    scope = script.index.scope(func)
    method = script.local_method(func, scope)
    definition = method or script.value(func, scope).definition
    if not isinstance(definition, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return False
    return bool(definition.decorator_list) or any(
        isinstance(part, ast.If) and guard(part.test) is not None for part in walk(definition)
    )


_NORM = Pattern(r"clip_grad|grad_norm|total_norm", re.IGNORECASE)


def reads_averages(script: ParsedFile, statement: ast.stmt) -> bool:
    """True if `statement` has to do with gradients, or with a norm that was taken of them."""
    for node in walk(statement):
        if isinstance(node, ast.Attribute) and node.attr == "grad":
            return True
        if isinstance(node, ast.Call) and _NORM.search(ast.unparse(node.func)):
            return True
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            found = script.index.scope(node).find(node.id)
            for binding in found[1] if found is not None else ():
                value = binding.value
                if isinstance(value, ast.Call) and _NORM.search(ast.unparse(value.func)):
                    return True
    return False
