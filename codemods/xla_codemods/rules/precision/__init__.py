"""XLA2xx: autocast, loss scaling, data types."""

from __future__ import annotations

from ...rule import Rule
from . import (
    autocast,
    autocast_state,
    bf16_supported,
    custom_fwd,
    grad_scaler,
    native_scaler,
)

RULES: tuple[Rule, ...] = (
    autocast.RULE,
    autocast_state.RULE,
    custom_fwd.RULE,
    grad_scaler.RULE,
    native_scaler.RULE,
    bf16_supported.RULE,
)
