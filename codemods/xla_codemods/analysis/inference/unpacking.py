"""The value of each name in an assignment to several names."""

from __future__ import annotations

import ast

from ..bindings import Binding


def part(binding: Binding) -> ast.expr | None:
    """What is bound, of `a, b = 0, []` too; None for a part of what is no tuple."""
    value = binding.value
    for step in binding.path:
        if not isinstance(value, (ast.Tuple, ast.List)) or not 0 <= step < len(value.elts):
            return None
        value = value.elts[step]
    return value
