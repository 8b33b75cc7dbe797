"""XLA4xx: how batches reach the device."""

from __future__ import annotations

from ...rule import Rule
from . import device_loader

RULES: tuple[Rule, ...] = (device_loader.RULE,)
