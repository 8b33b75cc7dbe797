"""XLA3xx: optimizers that exist for CUDA only, and arguments that do."""

from __future__ import annotations

from ...rule import Rule

RULES: tuple[Rule, ...] = ()
