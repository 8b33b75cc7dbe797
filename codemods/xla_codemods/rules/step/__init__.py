"""XLA5xx: the optimizer step, step marks, and what laziness makes slow."""

from __future__ import annotations

from ...rule import Rule
from . import (
    activation_checkpoint,
    compile,
    cpu_fallback,
    detect_anomaly,
    dynamic_shape,
    early_slice,
    growing_graph,
    host_memory,
    host_sync,
    inference_mode,
    moving_slice,
    moving_store,
    optimizer_step,
    packed_sequence,
    parameter_data,
    pooling_divisor,
    python_scalar,
    shared_buffers,
    sparse,
    step_mark,
)

RULES: tuple[Rule, ...] = (
    optimizer_step.RULE,
    step_mark.RULE,
    host_sync.RULE,
    dynamic_shape.RULE,
    growing_graph.RULE,
    moving_slice.RULE,
    moving_store.RULE,
    python_scalar.RULE,
    inference_mode.RULE,
    compile.RULE,
    activation_checkpoint.RULE,
    shared_buffers.RULE,
    detect_anomaly.RULE,
    sparse.RULE,
    packed_sequence.RULE,
    host_memory.RULE,
    parameter_data.RULE,
    early_slice.RULE,
    cpu_fallback.RULE,
    pooling_divisor.RULE,
)
