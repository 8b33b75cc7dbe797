"""float16 where it is written out."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ...names import Scope
    from ...script import Script

_HALF = frozenset({"torch.float16", "torch.half"})


def is_half(script: Script, node: ast.AST | None, scope: Scope | None = None) -> bool:
    """Whether `node` is `torch.float16`."""
    return isinstance(node, ast.expr) and script.dotted(node, scope) in _HALF


def bfloat16_for(script: Script, node: ast.expr, scope: Scope) -> str | None:
    """What `node` is called in bfloat16, where it is float16."""
    return script.spell("torch.bfloat16", scope) if is_half(script, node, scope) else None
