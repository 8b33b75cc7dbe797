"""XLA5xx: the optimizer step, step marks, and what laziness makes slow."""

from __future__ import annotations

from ...rule import Rule
from . import optimizer_step, step_mark

RULES: tuple[Rule, ...] = (optimizer_step.RULE, step_mark.RULE)
