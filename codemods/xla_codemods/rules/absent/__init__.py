"""XLA9xx: CUDA-only, with no equivalent on XLA."""

from __future__ import annotations

from ...rule import Rule

RULES: tuple[Rule, ...] = ()
