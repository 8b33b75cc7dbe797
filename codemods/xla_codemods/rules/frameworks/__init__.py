"""XLA8xx: transformers, accelerate, Lightning, DeepSpeed, Horovod, timm, apex's layers."""

from __future__ import annotations

from ...rule import Rule
from . import (
    accelerate,
    accelerate_features,
    apex_norm,
    deepspeed,
    device_map,
    horovod,
    lightning,
    quantized_loading,
    timm,
    timm_processes,
    training_arguments,
)

RULES: tuple[Rule, ...] = (
    training_arguments.RULE,
    accelerate.RULE,
    accelerate_features.RULE,
    lightning.RULE,
    deepspeed.RULE,
    horovod.RULE,
    timm.RULE,
    timm_processes.RULE,
    device_map.RULE,
    quantized_loading.RULE,
    apex_norm.RULE,
)
