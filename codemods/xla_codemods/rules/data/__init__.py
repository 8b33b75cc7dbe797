"""XLA4xx: how batches reach the device."""

from __future__ import annotations

from ...rule import Rule
from . import device_in_dataset, device_loader, non_blocking, pin_memory, prefetcher

RULES: tuple[Rule, ...] = (
    device_loader.RULE,
    pin_memory.RULE,
    non_blocking.RULE,
    prefetcher.RULE,
    device_in_dataset.RULE,
)
