"""XLA7xx: saving and loading."""

from __future__ import annotations

from ...rule import Rule

RULES: tuple[Rule, ...] = ()
