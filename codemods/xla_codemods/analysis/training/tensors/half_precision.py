"""float16, and float64, as they are written out in a script."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ...inference.values import HOST
from ...syntax import keyword

if TYPE_CHECKING:
    from ...parsed_file import ParsedFile
    from ...scopes import Scope

_HALF = frozenset({"torch.float16", "torch.half"})


def is_half(script: ParsedFile, node: ast.AST | None, scope: Scope | None = None) -> bool:
    """True if `node` is `torch.float16`."""
    return isinstance(node, ast.expr) and script.dotted(node, scope) in _HALF


def bfloat16_for(script: ParsedFile, node: ast.expr, scope: Scope) -> str | None:
    """Return the name of `node` in bfloat16, if it is float16."""
    return script.spell("torch.bfloat16", scope) if is_half(script, node, scope) else None


def converted_to(
    script: ParsedFile, call: ast.Call, scope: Scope, dtypes: frozenset[str]
) -> Iterator[ast.expr]:
    """The arguments of `x.to(...)` or `x.type(...)` that are one of `dtypes`, also by a name that only is one."""
    for node in (*call.args, keyword(call, "dtype")):
        if node is None:
            continue
        source = script.only_value(node) or node
        if script.dotted(source) in dtypes:
            yield source


def may_be_on_the_device(script: ParsedFile, node: ast.expr, scope: Scope) -> bool:
    """True if `node` can be a tensor or module that the accelerator computes with."""
    value = script.value(node, scope)
    if value.has(HOST):
        return False
    return not script.is_neither_tensor_nor_module(node, scope)
