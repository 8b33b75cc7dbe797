"""What CUDA's switches of the precision of matrix products ask for."""

from __future__ import annotations

import ast

# The setting of CUDA's that `precision` translates.
ALLOW_TF32 = "torch.backends.cuda.matmul.allow_tf32"


def precision(value: ast.expr, hole: str) -> tuple[str, tuple[ast.expr, ...]]:
    """The precision that `allow_tf32 = value` asks for: its text, with `value` at `hole` where it is needed."""
    if isinstance(value, ast.Constant):
        return ('"high"' if value.value else '"highest"'), ()
    return f'"high" if {hole} else "highest"', (value,)
