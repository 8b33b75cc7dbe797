"""XLA10x-11x: where tensors and modules live."""

from __future__ import annotations

from ...rule import Rule
from . import cuda_method

RULES: tuple[Rule, ...] = (cuda_method.RULE,)
