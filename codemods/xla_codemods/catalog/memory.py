"""`torch.cuda.memory` and `torch.cuda.random`, whose names `torch.cuda` has too."""

from __future__ import annotations

from .row import (
    ABSENT,
    ARGUMENTS,
    CONTEXT,
    HARMLESS,
    NONE,
    RAISES,
    REMOVED,
    RENAMED,
    REWRITTEN,
    SILENT,
    Row,
    also,
    rows,
)

_ALLOCATOR = "memory is XLA's own affair: there is no allocator to choose or to ask"
_USED = 'xla.memory_info()["bytes_used"]'
_PEAK = 'xla.memory_info()["peak_bytes_used"]'
_FIGURES = "xla.memory_info()"
_ZERO = "left as it is it says 0"

MEMORY: tuple[Row, ...] = (
    *rows(
        "torch.cuda",
        REMOVED,
        CONTEXT,
        HARMLESS,
        {"empty_cache": "XLA keeps no cache of freed memory"},
        rule="XLA126",
    ),
    *rows(
        "torch.cuda",
        REWRITTEN,
        ARGUMENTS,
        SILENT,
        {
            "memory_allocated": (_USED, _ZERO),
            "memory_reserved": (_USED, _ZERO),
            "memory_cached": (_USED, _ZERO),
            "max_memory_allocated": (_PEAK, _ZERO),
            "max_memory_reserved": (_PEAK, _ZERO),
            "max_memory_cached": (_PEAK, _ZERO),
            "memory_stats": (_FIGURES, "left as it is it is empty"),
        },
        rule="XLA125",
    ),
    *rows(
        "torch.cuda",
        REWRITTEN,
        RENAMED,
        RAISES,
        {
            "reset_peak_memory_stats": "xla.reset_peak_memory_stats()",
            "reset_max_memory_allocated": "xla.reset_peak_memory_stats()",
            "reset_max_memory_cached": "xla.reset_peak_memory_stats()",
        },
        rule="XLA125",
    ),
    *rows(
        "torch.cuda",
        REWRITTEN,
        ARGUMENTS,
        RAISES,
        {
            "mem_get_info": (_FIGURES, "free is bytes_limit - bytes_used, total is bytes_limit"),
            "memory_summary": ("str(xla.memory_info())", "XLA has no allocator statistics"),
        },
        rule="XLA125",
    ),
    *rows(
        "torch.cuda",
        ABSENT,
        NONE,
        RAISES,
        {
            "memory_usage": "use the vendor's monitor (neuron-monitor, tpu-info)",
            "device_memory_used": "use the vendor's monitor (neuron-monitor, tpu-info)",
            "reset_accumulated_memory_stats": "XLA keeps no such count",
            "set_per_process_memory_fraction": _ALLOCATOR,
            "get_per_process_memory_fraction": _ALLOCATOR,
            "caching_allocator_alloc": _ALLOCATOR,
            "change_current_allocator": _ALLOCATOR,
            "CUDAPluggableAllocator": _ALLOCATOR,
            "MemPool": _ALLOCATOR,
        },
        rule="XLA913",
    ),
    *rows(
        "torch.cuda",
        ABSENT,
        NONE,
        RAISES,
        {"ipc_collect": "there is no memory of CUDA's to collect: remove it"},
        rule="XLA126",
    ),
    *rows(
        "torch.cuda",
        ABSENT,
        NONE,
        SILENT,
        {
            "memory_stats_as_nested_dict": (_FIGURES, "left as it is it is empty"),
            "memory_snapshot": "no such record exists: use the XLA profiler (`torch_xla.debug.profiler`)",
            "host_memory_stats": "of CUDA's pinned memory, of which there is none",
            "host_memory_stats_as_nested_dict": "of CUDA's pinned memory, of which there is none",
            "get_allocator_backend": _ALLOCATOR,
        },
    ),
    *rows(
        "torch.cuda",
        ABSENT,
        NONE,
        HARMLESS,
        {
            "reset_accumulated_host_memory_stats": "of CUDA's pinned memory: remove it",
            "reset_peak_host_memory_stats": "of CUDA's pinned memory: remove it",
            "caching_allocator_delete": _ALLOCATOR,
            "caching_allocator_enable": _ALLOCATOR,
            "use_mem_pool": _ALLOCATOR,
        },
        rule="XLA913",
    ),
    *rows(
        "torch.cuda.memory",
        ABSENT,
        NONE,
        RAISES,
        {
            "_record_memory_history": "no such record exists: use the XLA profiler (`torch_xla.debug.profiler`)",
            "_dump_snapshot": "no such record exists: use the XLA profiler (`torch_xla.debug.profiler`)",
            "_snapshot": "no such record exists: use the XLA profiler (`torch_xla.debug.profiler`)",
        },
        torch="2.1+",
        evidence="fact 2",
    ),
)

RANDOM: tuple[Row, ...] = (
    *rows(
        "torch.cuda",
        REWRITTEN,
        RENAMED,
        SILENT,
        {
            "manual_seed": (
                "xla.manual_seed(seed, device_only=True)",
                "left as it is it seeds nothing",
            ),
            "manual_seed_all": (
                "xla.manual_seed(seed, device_only=True)",
                "left as it is it seeds nothing",
            ),
            "get_rng_state_all": ("xla.get_rng_state_all()", "left as it is it is an empty list"),
            "set_rng_state": ("xla.set_rng_state(state)", "left as it is it restores nothing"),
            "set_rng_state_all": (
                "xla.set_rng_state_all(states)",
                "left as it is it restores nothing",
            ),
        },
        rule="XLA124",
    ),
    *rows(
        "torch.cuda",
        REWRITTEN,
        RENAMED,
        RAISES,
        {"get_rng_state": "xla.get_rng_state()"},
        rule="XLA124",
    ),
    *rows(
        "torch.cuda",
        ABSENT,
        NONE,
        SILENT,
        {
            "seed": (
                "xla.manual_seed(random_seed)",
                "draw the seed yourself, so that it can be logged",
            ),
            "seed_all": (
                "xla.manual_seed(random_seed)",
                "draw the seed yourself, so that it can be logged",
            ),
        },
    ),
    *rows(
        "torch.cuda",
        ABSENT,
        NONE,
        RAISES,
        {
            "initial_seed": (
                "torch.initial_seed()",
                "XLA does not tell its own; it is seeded by `xla.manual_seed`",
            )
        },
    ),
)

_MEMORY_ONLY = [row.name.rpartition(".")[2] for row in MEMORY if row.name.count(".") == 2]
_NOT_IN_MEMORY = {"memory_usage", "device_memory_used", "ipc_collect"}

ROWS: tuple[Row, ...] = (
    *MEMORY,
    *also("torch.cuda.memory", [n for n in _MEMORY_ONLY if n not in _NOT_IN_MEMORY], MEMORY),
    *RANDOM,
    *also("torch.cuda.random", [row.name.rpartition(".")[2] for row in RANDOM], RANDOM),
)
