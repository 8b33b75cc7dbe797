"""XLA3xx: optimizers that exist for CUDA only, and arguments that do."""

from __future__ import annotations

from ...rule import Rule
from . import (
    apex_clip_grad,
    apex_optimizer,
    bitsandbytes_optimizer,
    capturable,
    clip_foreach,
    deepspeed_optimizer,
    fused_argument,
    slow_optimizer,
    state_moved,
    transformers_adamw,
)

RULES: tuple[Rule, ...] = (
    apex_optimizer.RULE,
    bitsandbytes_optimizer.RULE,
    deepspeed_optimizer.RULE,
    fused_argument.RULE,
    capturable.RULE,
    transformers_adamw.RULE,
    slow_optimizer.RULE,
    state_moved.RULE,
    apex_clip_grad.RULE,
    clip_foreach.RULE,
)
