"""What the analysis reports: something in the source that is CUDA-only, slow or wrong on XLA."""

from __future__ import annotations

import ast
from typing import NamedTuple

from .edits import Edit

ERROR, WARNING, INFO = "error", "warning", "info"
LOW, MEDIUM, HIGH = "low", "medium", "high"
SAFE, UNSAFE = "safe", "unsafe"


class Finding(NamedTuple):
    """One place and what is to be said of it. Lines and columns count from 1, columns in characters.

    `severity`: `error` fails or is silently wrong on XLA; `warning` is slow, or wrong in some runs; `info` is
    worth knowing and never fails a check. `safety` is None where there is no fix: a person decides.
    """

    code: str
    name: str
    message: str
    node: ast.AST
    line: int
    column: int
    end_line: int
    end_column: int
    severity: str
    effort: str
    safety: str | None
    edits: tuple[Edit, ...] = ()

    @property
    def fixable(self) -> bool:
        """Whether there is a fix, safe or not."""
        return self.safety is not None
