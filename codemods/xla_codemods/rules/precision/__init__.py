"""XLA2xx: autocast, loss scaling, data types."""

from __future__ import annotations

from ...rule import Rule

RULES: tuple[Rule, ...] = ()
