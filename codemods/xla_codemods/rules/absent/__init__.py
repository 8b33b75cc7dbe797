"""XLA9xx: CUDA-only, with no equivalent on XLA."""

from __future__ import annotations

from ...rule import Rule
from . import (
    allocator,
    cuda_graph,
    cuda_only,
    cupy,
    custom_kernel,
    dali,
    environment,
    flash_attention,
    nccl,
    nvml,
    quantized_layers,
    tensorrt,
    transformer_engine,
    triton_kernel,
)

RULES: tuple[Rule, ...] = (
    cuda_graph.RULE,
    custom_kernel.RULE,
    triton_kernel.RULE,
    flash_attention.RULE,
    nvml.RULE,
    cuda_only.RULE,
    dali.RULE,
    tensorrt.RULE,
    cupy.RULE,
    transformer_engine.RULE,
    nccl.RULE,
    environment.RULE,
    allocator.RULE,
    quantized_layers.RULE,
)
