"""Loops as syntax: what runs in each turn, and what does not; and the names of what can happen there."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence

from .nodes import CHILDREN

# A loop statement, or a comprehension: `[step(x) for x in loader]`.
LoopNode = ast.For | ast.AsyncFor | ast.While | ast.ListComp | ast.GeneratorExp
LOOPS = (ast.For, ast.AsyncFor, ast.While)
DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)
_BARRIERS = frozenset({*LOOPS, *DEFINITIONS})

BACKWARD, STEP, FORWARD, MARK = "backward", "step", "forward", "mark"
GRADIENTS = "gradients"  # are asked for by name: `torch.autograd.grad`


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
        below = CHILDREN[kind](node)
        if below:
            below.reverse()
            stack += below
