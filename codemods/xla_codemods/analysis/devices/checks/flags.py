"""Flags that are True if there is an accelerator: `use_cuda`, `self.on_gpu`, `config["cuda"]`, whatever sets them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ....flow.closure import reach
from ....flow.edges import sources
from ....patterns import Pattern
from ...inference.library_types import RUNTIME
from ..availability import asks_availability
from ..specs import Devices

if TYPE_CHECKING:
    from ...parsed_file import ParsedFile

_NAMED = Pattern(r"cuda|(?<![a-z])(?:gpu|accel)", re.IGNORECASE)
_DEVICES = frozenset({"cpu", "cuda"})


def is_question(script: ParsedFile, node: ast.AST) -> bool:
    """Return True if `node` itself tests for an accelerator: a call, a comparison of a device, `x.is_cuda`."""
    match node:
        case ast.Compare(left=left, comparators=[right]):
            devices = [part for part in (left, right) if not _is_text(part)]
            return len(devices) == 1 and _is_device(script, devices[0])
        case ast.Call(func=func) if (script.dotted(func) or "").startswith(RUNTIME):
            return ast.unparse(func).endswith((".is_available", ".is_accelerator"))
        case ast.Call():
            return asks_availability(script, node)
        case ast.Attribute(attr="is_cuda"):
            return True
    return False


def is_flag(script: ParsedFile, node: ast.AST) -> bool:
    """Return True if `node` is a flag for CUDA: by its name, or because a question for an accelerator sets it."""
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            pass
        case ast.Subscript(slice=ast.Constant(value=str(name))):
            pass
        case _:
            return False
    if script.dotted(node):  # `torch.cuda` itself, a module's constant
        return isinstance(node, ast.Name) and asks_availability(script, node)
    return _NAMED.search(name) is not None or any(questions_of(script, node))


def questions_of(script: ParsedFile, flag: ast.AST) -> Iterator[ast.expr]:
    """Yield the questions for an accelerator that set `flag`, in this file."""
    for node in reach([flag], lambda node: _given(script, node)):
        if isinstance(node, ast.expr) and is_question(script, node):
            yield node


def _given(script: ParsedFile, node: ast.AST) -> Iterator[ast.AST]:
    """Yield what `node` is True by: the parts of a condition, and the values of a name, an attribute or an entry."""
    match node:
        case ast.BoolOp(op=ast.And(), values=values):
            yield from values
        case ast.Call(func=ast.Name(id="bool"), args=[inner]):
            yield inner
        case ast.Name() | ast.Attribute() | ast.Subscript() | ast.Call():
            yield from sources(script, node)


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value in _DEVICES


def _is_device(script: ParsedFile, node: ast.expr) -> bool:
    match node:
        case ast.Attribute(value=owner, attr="type"):
            node = owner
        case ast.Call(func=ast.Name(id="str"), args=[inner]):
            node = inner
    return script.cached(Devices).is_device(node)
