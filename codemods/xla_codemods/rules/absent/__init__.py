"""XLA9xx: CUDA-only, with no equivalent on XLA."""

from __future__ import annotations

from ...rule import Rule
from . import cuda_only

RULES: tuple[Rule, ...] = (cuda_only.RULE,)
