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
from ...inference.values import ARRAY, BATCH, HOST, MODULE, NUMBER, STRING
from ...script import Script
from .losses import computed_from, losses

_OTHERS = frozenset({ARRAY, BATCH, HOST, NUMBER, STRING})


def is_computed_beside(script: Script, node: ast.expr) -> bool:
    """Return True if a name that `node` is computed from is among those that a loss of the file is computed from."""
    if not (script.runs_accelerated or uses_accelerate(script)):
        return False
    return not script.cached(_behind_losses).isdisjoint(_names(script, [node]))


def _behind_losses(script: Script) -> frozenset[Binding]:
    return frozenset(_names(script, losses(script)))


def _names(script: Script, nodes: Iterable[ast.expr]) -> Iterator[Binding]:
    """Yield the bindings of the names that `nodes` are computed from on their own device."""
    for part in reach(nodes, lambda each: _parts(script, each)):
        if isinstance(part, ast.Name) and not script.value(part).kinds & _OTHERS:
            yield from script.reaching(part)


def _parts(script: Script, node: ast.expr) -> list[ast.expr]:
    """Return what may be the value of `node`, and what an operation computes it from on the same device."""
    if script.value(node).kinds & _OTHERS:
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
