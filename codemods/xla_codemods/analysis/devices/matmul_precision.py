"""The precision of matrix products that CUDA's switches set."""

from __future__ import annotations

import ast

# The setting of CUDA's that `precision` translates.
ALLOW_TF32 = "torch.backends.cuda.matmul.allow_tf32"


def precision(value: ast.expr, hole: str) -> tuple[str, tuple[ast.expr, ...]]:
    """Return the precision that `allow_tf32 = value` sets: its text, with `value` at `hole` if it is needed."""
    if isinstance(value, ast.Constant):
        return ('"high"' if value.value else '"highest"'), ()
    return f'"high" if {hole} else "highest"', (value,)
