"""Every rule, in the order of its code. Each topic lists its own."""

from __future__ import annotations

from ..rule import Rule
from . import (
    absent,
    checkpoint,
    data,
    device,
    distributed,
    frameworks,
    optimizer,
    precision,
    services,
    step,
)

RULES: tuple[Rule, ...] = tuple(
    sorted(
        (
            rule
            for topic in (
                device,
                services,
                precision,
                optimizer,
                data,
                step,
                distributed,
                checkpoint,
                frameworks,
                absent,
            )
            for rule in topic.RULES
        ),
        key=lambda rule: rule.code,
    )
)
