"""XLA12x: what CUDA offers beside computing: seeds, timers, memory figures, streams."""

from __future__ import annotations

from ...rule import Rule

RULES: tuple[Rule, ...] = ()
