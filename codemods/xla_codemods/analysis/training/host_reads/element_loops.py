"""Loops over the elements of a tensor on the device that read each element: `for t, p in zip(labels, predictions)`."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping

from ...nodes import walk
from ...once import once
from ...scopes import Scope
from ...script import Script
from ...syntax import identifiers
from ..tensors.device_tensors import is_device_tensor
from .fetching import reads_of

_WRAPPERS = frozenset({"enumerate", "list", "reversed", "tqdm", "zip"})


@once
def element_loops(script: Script) -> Mapping[ast.AST, list[ast.expr]]:
    """Return the loops and comprehensions that read each element of a tensor on the device, each with the tensors."""
    if not (script.is_trained and script.runs_accelerated):
        return {}
    found: dict[ast.AST, list[ast.expr]] = {}
    for loop, iterated, target, body in _loops(script):
        tensors = [*_on_the_device(script, iterated)]
        if tensors and _reads(script, target, body):
            found[loop] = tensors
    return found


def _loops(script: Script) -> Iterator[tuple[ast.AST, ast.expr, ast.expr, list[ast.AST]]]:
    """Yield each loop and comprehension with what it iterates over, its variables and its body."""
    for loop, _ in script.index.of(ast.For):
        yield loop, loop.iter, loop.target, [*loop.body]
    comprehensions: list[tuple[ast.ListComp | ast.GeneratorExp, Scope]] = []
    comprehensions += [*script.index.of(ast.ListComp), *script.index.of(ast.GeneratorExp)]
    for node, _ in comprehensions:
        made = node.generators[0]
        yield node, made.iter, made.target, [node.elt, made]


def _on_the_device(script: Script, iterated: ast.expr) -> Iterator[ast.expr]:
    match iterated:
        case ast.Call(func=ast.Name(id=name), args=args) if name in _WRAPPERS:
            for each in args:
                yield from _on_the_device(script, each)
        case _ if is_device_tensor(script, iterated):
            yield iterated


def _reads(script: Script, target: ast.expr, body: list[ast.AST]) -> bool:
    """Return True if `body` reads what `target` is bound to."""
    names = identifiers(target)
    return any(
        not names.isdisjoint(identifiers(node)) and any(True for _ in reads_of(script, node))
        for part in body
        for node in walk(part)
    )
