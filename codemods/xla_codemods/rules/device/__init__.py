"""XLA101 to XLA119: where tensors and modules live."""

from __future__ import annotations

from ...rule import Rule
from . import (
    accelerator_module,
    command_device,
    cuda_method,
    default_device,
    device_literal,
    device_module,
    device_properties,
    device_query,
    device_string,
    device_test,
    generator,
    given_device,
    integer_device,
    set_device,
    several_devices,
    tensor_type_name,
    typed_tensor,
)

RULES: tuple[Rule, ...] = (
    cuda_method.RULE,
    device_query.RULE,
    set_device.RULE,
    device_literal.RULE,
    device_string.RULE,
    integer_device.RULE,
    device_test.RULE,
    typed_tensor.RULE,
    default_device.RULE,
    accelerator_module.RULE,
    given_device.RULE,
    generator.RULE,
    device_properties.RULE,
    several_devices.RULE,
    device_module.RULE,
    tensor_type_name.RULE,
    command_device.RULE,
)
