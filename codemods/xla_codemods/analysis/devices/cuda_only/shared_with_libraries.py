"""Variables for torch's device that a library without torch receives too: `faiss.Kmeans(8, 4, gpu=use_cuda)`."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

from ....flow.closure import ends
from ....flow.conditions import conditions
from ....flow.edges import sources
from ...inference.library_types import is_foreign
from ...inference.values import ACCEL, DEVICE, HOST
from ...parsed_file import ParsedFile
from ..availability import AVAILABLE
from .flags_of_libraries import (
    imports_foreign,
    is_for_another_library,
    libraries_without_torch,
    library_given,
)

_WITHOUT_DEVICES = frozenset({"PIL", "cv2", "pandas", "polars", "sklearn"})  # they only hold values


class Shared(NamedTuple):
    """A variable that torch and another library use.

    Attributes:
        read: Where the library receives it: `use_cuda`.
        library: The library.
        is_flag: It is the result of a test for an accelerator; otherwise a device, or its name.
    """

    read: ast.expr
    library: str
    is_flag: bool


def shared_with_libraries(script: ParsedFile) -> Iterator[Shared]:
    """Yield the variables that are those of the XLA device after the migration, where a library receives them."""
    for read in _deciding(script):
        library = library_given(script, read, may_be_named=False)
        if library is None:
            library = next(iter(libraries_without_torch(script, read, of_objects=False)), None)
        if library is None or library in _WITHOUT_DEVICES or _is_guarded(script, read):
            continue
        found = ends([_device_of(read)], partial(sources, script))
        if any(_is_a_flag(script, end) for end in found):
            yield Shared(read, library, is_flag=True)
        elif is_foreign(library) and any(_is_a_device(script, end) for end in found):
            yield Shared(read, library, is_flag=False)


def _deciding(script: ParsedFile) -> Iterator[ast.expr]:
    """Yield the variables in arguments, and those in dictionaries, which may become arguments."""
    for call, _ in script.index.of(ast.Call):
        for argument in (*call.args, *(k.value for k in call.keywords)):
            yield from _variables(argument)
    if script.cached(imports_foreign):
        for made, _ in script.index.of(ast.Dict):
            for value in made.values:
                yield from _variables(value)
        for store, _ in script.index.of(ast.Assign):
            if isinstance(store.targets[0], ast.Subscript):
                yield from _variables(store.value)


def _variables(node: ast.expr) -> Iterator[ast.expr]:
    """Yield the variables that `node` is, or is chosen by: `use_cuda` in `"gpu" if use_cuda else "cpu"`."""
    match node:
        case ast.Name() | ast.Attribute():
            yield node
        case ast.BoolOp(values=parts):
            for part in parts:
                yield from _variables(part)
        case ast.UnaryOp(operand=part):
            yield from _variables(part)
        case ast.IfExp(test=test, body=body, orelse=other):
            for part in (test, body, other):
                yield from _variables(part)


def _is_guarded(script: ParsedFile, read: ast.expr) -> bool:
    """Return True for `read if torch.cuda.is_available() else "cpu"`, and for `read and torch.cuda.is_available()`."""
    statement = script.statement(read)
    tests = (test for test, needed in conditions(script, read, refusals=False) if needed)
    return any(
        _asks(script, test) == "torch.cuda.is_available" and script.statement(test) is statement
        for test in tests
    )


def _asks(script: ParsedFile, node: ast.expr) -> str | None:
    return script.dotted(node.func) if isinstance(node, ast.Call) else None


def _device_of(read: ast.expr) -> ast.expr:
    return read.value if isinstance(read, ast.Attribute) and read.attr == "type" else read


def _is_a_flag(script: ParsedFile, end: ast.expr) -> bool:
    return _asks(script, end) in AVAILABLE and library_given(script, end) is None


def _is_a_device(script: ParsedFile, end: ast.expr) -> bool:
    value = script.value(end)
    is_accelerator = value.has(DEVICE) and (value.has(ACCEL) or not value.has(HOST))
    return is_accelerator and not is_for_another_library(script, end)
