"""Loops over the elements of a tensor on the device that read each element: `for t, p in zip(labels, predictions)`."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from ...nodes import walk
from ...once import once
from ...scopes import Scope
from ...script import Script
from ...syntax import identifiers, unparsed
from ..tensors.device_tensors import is_device_tensor
from ..training import FORWARD
from .fetching import made_later, reads_of

_WRAPPERS = frozenset({"enumerate", "list", "reversed", "tqdm", "zip"})


class ElementLoop(NamedTuple):
    """The tensors whose elements a loop reads, and the reads; None for all in the loop."""

    tensors: list[ast.expr]
    reads: frozenset[ast.AST] | None


def is_reported_at_a_loop(script: Script, node: ast.AST) -> bool:
    """Return True if `node` reads an element, and its loop is reported."""
    loops = element_loops(script)
    around = (loops[above] for above in script.ancestors(node) if above in loops)
    return any(loop.reads is None or node in loop.reads for loop in around)


@once
def element_loops(script: Script) -> Mapping[ast.AST, ElementLoop]:
    """Return the loops and comprehensions that read each element of a tensor on the device."""
    if not (script.is_trained and script.runs_accelerated):
        return {}
    found: dict[ast.AST, ElementLoop] = {}
    for loop, iterated, target, body in _loops(script):
        tensors = [*_on_the_device(script, iterated)]
        if tensors and _reads(script, target, body):
            found[loop] = ElementLoop(tensors, None)
        elif indexed := dict(_read_by_index(script, iterated, target, body)):
            if made_later(script).isdisjoint(node for part in body for node in walk(part)):
                named = {unparsed(tensor): tensor for tensor in indexed.values()}
                found[loop] = ElementLoop([*named.values()], frozenset(indexed))
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


def _read_by_index(
    script: Script, iterated: ast.expr, target: ast.expr, body: list[ast.AST]
) -> Iterator[tuple[ast.AST, ast.expr]]:
    """Yield the reads of elements in a loop over their indices, with the tensors: `labels` of `labels[i].item()`.

    A loop that runs the model computes something new in each iteration.
    """
    if not (isinstance(target, ast.Name) and _is_a_range(iterated)):
        return
    nodes = [node for part in body for node in walk(part)]
    calls = (node for node in nodes if isinstance(node, ast.Call))
    if any(FORWARD in script.training.call_effects(call) for call in calls):
        return
    for node in nodes:
        for tensor in (_indexed(value, target.id) for value in _read(node)):
            if tensor is not None and is_device_tensor(script, tensor):
                if any(True for _ in reads_of(script, node)):
                    yield node, tensor


def _is_a_range(iterated: ast.expr) -> bool:
    """Return True for `range(n)`, whose number of elements is not written out."""
    match iterated:
        case ast.Call(func=ast.Name(id="range"), args=args):
            return not all(isinstance(argument, ast.Constant) for argument in args)
        case ast.Call(func=ast.Name(id=name), args=[inner, *_]) if name in _WRAPPERS:
            return _is_a_range(inner)
    return False


def _read(node: ast.AST) -> list[ast.expr]:
    """Return the values that `node` reads, if it reads: `x` of `x.item()`, `int(x)` and `table[x]`."""
    match node:
        case ast.Call(func=ast.Attribute(value=owner), args=[]):
            return [owner]
        case ast.Call(func=ast.Name(), args=args):
            return args
        case ast.Subscript(slice=index):
            return index.elts if isinstance(index, ast.Tuple) else [index]
    return []


def _indexed(node: ast.expr, name: str) -> ast.expr | None:
    """Return `x` of `x[i]`, also of `x[i].cpu()` and `x[i - 1]`."""
    match node:
        case ast.Call(func=ast.Attribute(value=owner), args=[]):
            return _indexed(owner, name)
        case ast.Subscript(value=owner, slice=index) if name in identifiers(index):
            return owner
    return None


def _reads(script: Script, target: ast.expr, body: list[ast.AST]) -> bool:
    """Return True if `body` reads what `target` is bound to."""
    names = identifiers(target)
    return any(
        not names.isdisjoint(identifiers(node)) and any(True for _ in reads_of(script, node))
        for part in body
        for node in walk(part)
    )
