"""Tensors that are computed from what a loss is computed from, also through functions of the file: rewards, log-probabilities.

A loss is on the device, and so are the tensors that operations of torch compute it from.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from ....flow.closure import reach
from ....flow.edges import sources
from ...bindings import Binding
from ...frameworks.accelerator import uses_accelerate
from ...frameworks.hooks import called_in_steps
from ...inference.values import ARRAY, BATCH, HOST, MODULE, NUMBER, STRING, TENSOR
from ...scopes import FunctionNode
from ...script import Script
from .losses import computed_from, losses, returned_losses

_OTHERS = frozenset({ARRAY, BATCH, HOST, NUMBER, STRING})


def is_computed_beside(script: Script, node: ast.expr) -> bool:
    """Return True if a name that `node` is computed from is among those that a loss of the file is computed from."""
    function = script.function(node)
    is_led = function in called_in_steps(script)
    if not (is_led or script.runs_accelerated or uses_accelerate(script)):
        return False
    behind = script.cached(_behind_losses) | script.cached(_behind_returned_losses, function)
    return not behind.isdisjoint(_names(script, [node]))


def _behind_losses(script: Script) -> frozenset[Binding]:
    return frozenset(_names(script, losses(script)))


def _behind_returned_losses(script: Script, function: FunctionNode | None) -> frozenset[Binding]:
    return frozenset(_names(script, returned_losses(script, function)))


def is_computed_from_a_forward(script: Script, node: ast.expr) -> bool:
    """Return True if a tensor that is computed for `node` is what a model returns: `logits = model(ids)[:, -1]`."""
    return any(
        isinstance(part, ast.Call) and script.training.is_forward(part)
        for part in reach([node], lambda each: _parts(script, each))
    )


def _names(script: Script, nodes: Iterable[ast.expr]) -> Iterator[Binding]:
    """Yield the bindings of the names that `nodes` are computed from on their own device."""
    for part in reach(nodes, lambda each: _parts(script, each)):
        if isinstance(part, ast.Name) and not script.value(part).kinds & _OTHERS:
            yield from script.reaching(part)


def _is_summed_up(script: Script, node: ast.expr) -> bool:
    """Return True for `loss` of `loss = 0`, to which the function adds something else than numbers."""
    bindings = script.bindings(node) if isinstance(node, ast.Name) else ()
    added = [b.value for b in bindings if b.how == "augment" and b.value is not None]
    return any(not script.value(value).has(NUMBER) for value in added)


def _parts(script: Script, node: ast.expr) -> list[ast.expr]:
    """Return what may be the value of `node`, and what an operation computes it from on the same device."""
    value = script.value(node)
    is_sum = value.kinds & _OTHERS == {NUMBER} and (
        value.has(TENSOR) or _is_summed_up(script, node)
    )
    if value.kinds & _OTHERS and not is_sum:
        return []
    if isinstance(node, ast.Call) and script.value(node.func).has(MODULE):
        return []  # a wrapper moves its batches itself
    found = [*sources(script, node), *computed_from(script, node)]
    for binding in script.reaching(node) if isinstance(node, ast.Name) else ():
        if binding.how == "augment" and binding.value is not None:
            found.append(binding.value)
        elif binding.how == "assign" and binding.path and isinstance(binding.value, ast.Call):
            for returned in sources(script, binding.value):
                part = binding._replace(value=returned).part
                found += [part] if part is not None else []
    return found
