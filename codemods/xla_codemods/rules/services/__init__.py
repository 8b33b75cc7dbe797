"""XLA121 to XLA139: what CUDA offers beside computing: seeds, timers, memory figures, streams."""

from __future__ import annotations

from ...rule import Rule
from . import (
    cudnn,
    empty_cache,
    event,
    matmul_precision,
    memory_figures,
    out_of_memory,
    profiler_ranges,
    rng_state,
    seed,
    stream,
    synchronize,
)

RULES: tuple[Rule, ...] = (
    synchronize.RULE,
    event.RULE,
    stream.RULE,
    seed.RULE,
    memory_figures.RULE,
    empty_cache.RULE,
    profiler_ranges.RULE,
    cudnn.RULE,
    matmul_precision.RULE,
    rng_state.RULE,
    out_of_memory.RULE,
)
