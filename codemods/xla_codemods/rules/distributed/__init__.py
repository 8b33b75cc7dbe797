"""XLA6xx: several processes."""

from __future__ import annotations

from ...rule import Rule

RULES: tuple[Rule, ...] = ()
