"""`torch.cuda.memory` and `torch.cuda.random`, whose names `torch.cuda` has too."""

from __future__ import annotations

from .cuda import DEVICES
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

_ALLOCATOR = "XLA manages the device's memory"
_USED = 'xla.memory_info()["bytes_used"]'
_RESERVED = 'xla.memory_info()["bytes_reserved"]'
_PEAK_RESERVED = 'xla.memory_info()["peak_bytes_reserved"]'
_PEAK = 'xla.memory_info()["peak_bytes_used"]'
_FIGURES = "xla.memory_info()"
_NO_RECORD = "XLA keeps no record of allocations: use the XLA profiler (`torch_xla.debug.profiler`)"
_ZERO = "the original returns 0"

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
            "memory_reserved": (_RESERVED, _ZERO),
            "memory_cached": (_RESERVED, _ZERO),
            "max_memory_allocated": (_PEAK, _ZERO),
            "max_memory_reserved": (_PEAK_RESERVED, _ZERO),
            "max_memory_cached": (_PEAK_RESERVED, _ZERO),
            "memory_stats": (_FIGURES, "the original returns an empty dict"),
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
            "mem_get_info": "xla.mem_get_info()",
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
        REMOVED,
        CONTEXT,
        RAISES,
        {
            "ipc_collect": "an XLA host has no CUDA memory",
            "reset_accumulated_memory_stats": "XLA does not count this",
        },
        rule="XLA126",
    ),
    *rows(
        "torch.cuda",
        ABSENT,
        NONE,
        SILENT,
        {"memory_snapshot": _NO_RECORD},
        rule="XLA125",
    ),
    *rows(
        "torch.cuda",
        ABSENT,
        NONE,
        SILENT,
        {
            "memory_stats_as_nested_dict": (_FIGURES, "the original returns an empty dict"),
            "host_memory_stats": "it describes CUDA's pinned memory",
            "host_memory_stats_as_nested_dict": "it describes CUDA's pinned memory",
            "get_allocator_backend": _ALLOCATOR,
        },
    ),
    *rows(
        "torch.cuda",
        ABSENT,
        NONE,
        HARMLESS,
        {
            "reset_accumulated_host_memory_stats": "it describes CUDA's pinned memory",
            "reset_peak_host_memory_stats": "it describes CUDA's pinned memory",
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
            "_record_memory_history": _NO_RECORD,
            "_dump_snapshot": _NO_RECORD,
            "_snapshot": _NO_RECORD,
        },
        rule="XLA125",
        torch="2.1+",
        evidence="fact 2",
    ),
)

_DRAWN = "xla.manual_seed(torch.Generator().seed(), device_only=True)"

RANDOM: tuple[Row, ...] = (
    *rows(
        "torch.cuda",
        REWRITTEN,
        RENAMED,
        SILENT,
        {
            "manual_seed": (
                "xla.manual_seed(seed, device_only=True)",
                "the original seeds nothing",
            ),
            "manual_seed_all": (
                "xla.manual_seed(seed, device_only=True)",
                "the original seeds nothing",
            ),
        },
        rule="XLA124",
    ),
    *rows(
        "torch.cuda",
        REWRITTEN,
        RENAMED,
        SILENT,
        {
            "get_rng_state_all": ("xla.get_rng_state_all()", "the original returns an empty list"),
            "set_rng_state": ("xla.set_rng_state(state)", "the original restores nothing"),
            "set_rng_state_all": (
                "xla.set_rng_state_all(states)",
                "the original restores nothing",
            ),
        },
        rule="XLA130",
    ),
    *rows(
        "torch.cuda",
        REWRITTEN,
        RENAMED,
        RAISES,
        {"get_rng_state": "xla.get_rng_state()"},
        rule="XLA130",
    ),
    *rows(
        "torch.cuda",
        REWRITTEN,
        CONTEXT,
        SILENT,
        {
            "seed": (_DRAWN, "the seed is drawn on the host"),
            "seed_all": (_DRAWN, "the seed is drawn on the host"),
        },
        rule="XLA124",
    ),
    *rows(
        "torch.cuda",
        ABSENT,
        NONE,
        RAISES,
        {
            "initial_seed": (
                "torch.initial_seed()",
                "XLA does not return its seed, which `xla.manual_seed` sets",
            )
        },
        rule="XLA124",
    ),
)

_MEMORY_ONLY = [row.name.rpartition(".")[2] for row in MEMORY if row.name.count(".") == 2]
_NOT_IN_MEMORY = {"memory_usage", "device_memory_used", "ipc_collect"}

ROWS: tuple[Row, ...] = (
    *MEMORY,
    *also("torch.cuda.memory", [n for n in _MEMORY_ONLY if n not in _NOT_IN_MEMORY], MEMORY),
    *also("torch.cuda.memory", ("list_gpu_processes",), DEVICES),
    *RANDOM,
    *also("torch.cuda.random", [row.name.rpartition(".")[2] for row in RANDOM], RANDOM),
)
