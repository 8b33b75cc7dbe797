"""Code that is a part of something larger: of a model's computation, of a backward pass."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from ...patterns import Pattern
from ..inference.values import MODULE, PARAMETERS
from ..nodes import walk
from .training import Loop

if TYPE_CHECKING:
    from ..parsed_file import ParsedFile
    from ..scopes import FunctionNode

_OPERATIONS = frozenset({"torch.autograd.Function", "torch.autograd.function.Function"})
# Methods of a module that compute in their own loop: each turn is a graph.
_TURNS = Pattern(
    r"generat|sampl|decod|predict|translat|infer|search|rollout|evaluat|valid|test|step|fit|train|epoch|optimi",
    re.IGNORECASE,
)
# What goes through a module's tensors, one by one.
_MEMBERS = frozenset(
    "buffers children modules named_buffers named_children named_modules named_parameters parameters state_dict".split()
)


def is_part_of_a_model(script: ParsedFile, loop: Loop) -> bool:
    """Loops in what a module computes, and loops over layers, parameters or states."""
    function = script.function(loop.node)
    if function is not None:
        if function.name in {"forward", "__call__"} or _is_of_an_operation(script, function):
            return True
        if script.is_in_a_module(function) and not _TURNS.search(function.name):
            return True
    if not isinstance(loop.node, (ast.For, ast.AsyncFor)):
        return False
    if any(isinstance(n, ast.Attribute) and n.attr in _MEMBERS for n in walk(loop.node.iter)):
        return True
    iterated = script.value(loop.node.iter, loop.scope)
    element = iterated.iterated()
    return bool((iterated.kinds | element.kinds) & {MODULE, PARAMETERS})


def _is_of_an_operation(script: ParsedFile, function: FunctionNode) -> bool:
    """True if `function` belongs to a `torch.autograd.Function`: it runs in the middle of a step's gradients."""
    made = script.parent(function)
    return isinstance(made, ast.ClassDef) and any(
        script.dotted(base) in _OPERATIONS for base in made.bases
    )


def is_hook(script: ParsedFile, node: ast.AST) -> bool:
    """True if `node` stands in a function that is registered as a hook: it runs in the middle of backward."""
    function = script.function(node)
    if function is None or not script.source.mentions("hook"):
        return False
    for call, _ in script.index.of(ast.Call):
        name = call.func.attr if isinstance(call.func, ast.Attribute) else ""
        if "hook" in name and any(
            isinstance(a, ast.Name) and a.id == function.name for a in call.args
        ):
            return True
    return False
