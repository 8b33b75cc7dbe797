"""Loops over single samples: a data set, a list of texts or of files, instead of a loader of batches."""

from __future__ import annotations

import ast
import re

from ....patterns import Pattern
from ...nodes import walk

_SAMPLES = Pattern(
    r"(?:^|_)(?:data_?sets?|(?:data|train|valid|val|test)_?set|documents|docs|examples|files|images|lines|paths|prompts"
    r"|queries|records|samples|sentences|strings|texts)$",
    re.IGNORECASE,
)
_BATCH = Pattern(r"batch", re.IGNORECASE)


def gives_samples(loop: ast.AST, iterated: ast.expr) -> bool:
    """Return True if `iterated` is called samples and its elements are not called a batch, or if `loop` adds the
    dimension of the batch to an element itself.
    """
    target = getattr(loop, "target", None)
    if not isinstance(target, ast.expr):
        return False
    name = ast.unparse(iterated).rpartition(".")[2]
    if _BATCH.search(name) or _BATCH.search(ast.unparse(target)):
        return False
    if _SAMPLES.search(name):
        return True
    elements = {node.id for node in walk(target) if isinstance(node, ast.Name)}
    return any(_adds_a_dimension(node, elements) for node in walk(loop))


def _adds_a_dimension(node: ast.AST, elements: set[str]) -> bool:
    """Return True for `x.unsqueeze(0)`, `x.cuda()[None]` and `torch.stack([x])` of one of `elements`."""
    match node:
        case ast.Call(
            func=ast.Attribute(value=whole, attr="unsqueeze"), args=[ast.Constant(value=0)]
        ):
            return _is_element(whole, elements)
        case ast.Subscript(
            value=whole,
            slice=(ast.Constant(value=None) | ast.Tuple(elts=[ast.Constant(value=None), *_])),
        ):
            return _is_element(whole, elements)
        case ast.Call(func=ast.Attribute(attr="stack" | "cat"), args=[ast.List(elts=[whole])]):
            return _is_element(whole, elements)
    return False


def _is_element(node: ast.expr, elements: set[str]) -> bool:
    """Return True if `node` is one of `elements`, or an entry of one, also after a move."""
    while True:
        match node:
            case ast.Name(id=name):
                return name in elements
            case ast.Call(func=ast.Attribute(value=inner, attr="to" | "cuda" | "float" | "long")):
                node = inner
            case ast.Subscript(value=inner, slice=ast.Constant(value=str())):
                node = inner
            case _:
                return False
