"""Loops over single samples: a data set, a list of texts or of files, instead of a loader of batches."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection

from ....flow.closure import reach
from ....patterns import Pattern
from ...nodes import walk

_SAMPLES = Pattern(
    r"(?:^|_)(?:data_?sets?|(?:data|train|valid|val|test)_?set|documents|docs|examples|files|images|lines|paths|prompts"
    r"|queries|records|samples|sentences|strings|texts)$",
    re.IGNORECASE,
)
_BATCH = Pattern(r"batch", re.IGNORECASE)
_TEXT_METHODS = frozenset("encode endswith lower rstrip splitlines startswith strip".split())
_SAME = frozenset({"cuda", "float", "long", "to"})


def gives_samples(loop: ast.AST, iterated: ast.expr) -> bool:
    """Return True if the elements of `iterated` are single samples.

    The uses of an element in `loop` decide. Its name decides if they do not tell.
    """
    target = getattr(loop, "target", None)
    if not isinstance(target, ast.expr):
        return False
    name = ast.unparse(iterated).rpartition(".")[2]
    if _BATCH.search(name) or _BATCH.search(ast.unparse(target)):
        return False
    nodes = list(walk(loop))
    start = [node.id for node in walk(target) if isinstance(node, ast.Name)]
    elements = reach(start, lambda element: _names_of(nodes, element)).keys()
    if any(_is_of_one_sample(node, elements) for node in nodes):
        return True
    return bool(_SAMPLES.search(name)) and not any(_counts_samples(n, elements) for n in nodes)


def _names_of(nodes: list[ast.AST], element: str) -> list[str]:
    """Return the names that are assigned `element`, or an entry of it."""
    return [
        target.id
        for node in nodes
        if isinstance(node, ast.Assign) and _is_element(node.value, (element,))
        for target in node.targets
        if isinstance(target, ast.Name)
    ]


def _is_of_one_sample(node: ast.AST, elements: Collection[str]) -> bool:
    """Return True for `x.unsqueeze(0)`, `x[None]`, `torch.stack([x])`, `open(x)` and `x.strip()`."""
    match node:
        case ast.Call(
            func=ast.Attribute(value=whole, attr="unsqueeze"), args=[ast.Constant(value=0)]
        ):
            pass
        case ast.Subscript(
            value=whole,
            slice=(ast.Constant(value=None) | ast.Tuple(elts=[ast.Constant(value=None), *_])),
        ):
            pass
        case ast.Call(func=ast.Attribute(attr="stack" | "cat"), args=[ast.List(elts=[whole])]):
            pass
        case ast.Call(
            func=ast.Attribute(attr="open") | ast.Name(id="open"), args=[ast.Name() as whole, *_]
        ):
            pass
        case ast.Call(func=ast.Attribute(value=ast.Name() as whole, attr=name)) if (
            name in _TEXT_METHODS
        ):
            pass
        case _:
            return False
    return _is_element(whole, elements)


def _counts_samples(node: ast.AST, elements: Collection[str]) -> bool:
    """Return True for `x.size(0)`, the number of samples of a batch."""
    match node:
        case ast.Call(func=ast.Attribute(value=whole, attr="size"), args=[ast.Constant(value=0)]):
            return _is_element(whole, elements)
    return False


def _is_element(node: ast.expr, elements: Collection[str]) -> bool:
    """Return True if `node` is one of `elements`, or an entry of one, also after a move."""
    while True:
        match node:
            case ast.Name(id=name):
                return name in elements
            case ast.Call(func=ast.Attribute(value=inner, attr=name)) if name in _SAME:
                node = inner
            case ast.Subscript(value=inner, slice=ast.Constant(value=str())):
                node = inner
            case _:
                return False
