"""XLA101 to XLA119: where tensors and modules live."""

from __future__ import annotations

from ...rule import Rule
from . import (
    cuda_method,
    device_literal,
    device_string,
    given_device,
    integer_device,
)

RULES: tuple[Rule, ...] = (
    cuda_method.RULE,
    device_literal.RULE,
    device_string.RULE,
    integer_device.RULE,
    given_device.RULE,
)
