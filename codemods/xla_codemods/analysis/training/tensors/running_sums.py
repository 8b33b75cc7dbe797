"""What starts a running sum, or a list: the value that a name is bound to."""

from __future__ import annotations

import ast

from ...scopes import Binding


def part(binding: Binding) -> ast.expr | None:
    """What is bound, of `a, b = 0, []` too."""
    value = binding.value
    for step in binding.path:
        if not isinstance(value, (ast.Tuple, ast.List)) or not 0 <= step < len(value.elts):
            return None
        value = value.elts[step]
    return value
