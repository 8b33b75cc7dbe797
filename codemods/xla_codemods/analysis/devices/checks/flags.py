"""Flags that are True if there is an accelerator: `use_cuda`, `self.on_gpu`, `config["cuda"]`."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ....flow.closure import reach
from ....flow.edges import sources
from ....patterns import Pattern
from ...inference.library_types import RUNTIME
from ...syntax import name_of
from ..availability import asks_availability
from ..specs import Devices, last_name

if TYPE_CHECKING:
    from ...parsed_file import ParsedFile

_NAMED = Pattern(r"cuda|(?<![a-z])(?:gpu|accel)", re.IGNORECASE)
_DEVICES = frozenset({"cpu", "cuda"})


def is_question(script: ParsedFile, node: ast.AST) -> bool:
    """Return True if `node` itself tests for an accelerator: a call, a comparison, `x.is_cuda`."""
    match node:
        case ast.Compare(left=left, comparators=[right]):
            devices = [n for n in (left, right) if getattr(n, "value", None) not in _DEVICES]
            return len(devices) == 1 and _is_device(script, devices[0])
        case ast.Call(func=func) if (script.dotted(func) or "").startswith(RUNTIME):
            return name_of(func) in {"is_available", "is_accelerator"}
        case ast.Call():
            return asks_availability(script, node)
    return isinstance(node, ast.Attribute) and node.attr == "is_cuda"


def is_flag(script: ParsedFile, node: ast.AST) -> bool:
    """Return True if `node` is a flag for CUDA by its name, or if a test for CUDA sets it."""
    if not isinstance(node, (ast.Name, ast.Attribute, ast.Subscript)):
        return False
    if script.dotted(node):  # `torch.cuda` itself, a module's constant
        return isinstance(node, ast.Name) and asks_availability(script, node)
    name = last_name(node)
    return name is not None and (bool(_NAMED.search(name)) or any(questions_of(script, node)))


def questions_of(script: ParsedFile, flag: ast.AST) -> Iterator[ast.expr]:
    """Yield the questions for an accelerator that set `flag`, in this file."""
    for node in reach([flag], lambda node: _given(script, node)):
        if isinstance(node, ast.expr) and is_question(script, node):
            yield node


def _given(script: ParsedFile, node: ast.AST) -> Iterator[ast.AST]:
    """Yield what makes `node` True: the parts of a condition, and the values of a name."""
    match node:
        case ast.BoolOp(op=ast.And(), values=values):
            yield from values
        case ast.Call(func=ast.Name(id="bool"), args=[inner]):
            yield inner
        case ast.Name() | ast.Attribute() | ast.Subscript() | ast.Call():
            yield from sources(script, node)


def _is_device(script: ParsedFile, node: ast.expr) -> bool:
    match node:
        case ast.Attribute(value=owner, attr="type"):
            node = owner
        case ast.Call(func=ast.Name(id="str"), args=[inner]):
            node = inner
    return script.cached(Devices).is_device(node)
