"""XLA2xx: autocast, loss scaling, data types."""

from __future__ import annotations

from ...rule import Rule
from . import (
    apex_amp,
    apex_fp16,
    autocast,
    autocast_state,
    bf16_supported,
    custom_fwd,
    float16,
    float64,
    grad_scaler,
    native_scaler,
)

RULES: tuple[Rule, ...] = (
    autocast.RULE,
    autocast_state.RULE,
    custom_fwd.RULE,
    grad_scaler.RULE,
    native_scaler.RULE,
    apex_amp.RULE,
    apex_fp16.RULE,
    float16.RULE,
    float64.RULE,
    bf16_supported.RULE,
)
