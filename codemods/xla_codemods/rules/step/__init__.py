"""XLA5xx: the optimizer step, step marks, and what laziness makes slow."""

from __future__ import annotations

from ...rule import Rule
from . import (
    activation_checkpoint,
    compile,
    detect_anomaly,
    host_memory,
    inference_mode,
    optimizer_step,
    packed_sequence,
    parameter_data,
    shared_buffers,
    sparse,
    step_mark,
)

RULES: tuple[Rule, ...] = (
    optimizer_step.RULE,
    step_mark.RULE,
    inference_mode.RULE,
    compile.RULE,
    activation_checkpoint.RULE,
    shared_buffers.RULE,
    detect_anomaly.RULE,
    sparse.RULE,
    packed_sequence.RULE,
    host_memory.RULE,
    parameter_data.RULE,
)
