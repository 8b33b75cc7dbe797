"""`torch.accelerator`: of CUDA's devices, not of XLA's."""

from __future__ import annotations

from .row import (
    ARGUMENTS,
    CONTEXT,
    HARMLESS,
    RAISES,
    REMOVED,
    RENAMED,
    REWRITTEN,
    SAME,
    SILENT,
    Row,
    also,
    rows,
)

_ONE = "an XLA process drives one device"
_WRONG = "`torch.accelerator` does not know XLA devices, so the script trains on the CPU (fact 1.4)"

ACCELERATOR: tuple[Row, ...] = (
    *rows(
        "torch.accelerator",
        REWRITTEN,
        RENAMED,
        SILENT,
        {
            "is_available": ("xla.is_available()", _WRONG),
            "device_count": ("xla.device_count()", _WRONG),
        },
        rule="XLA102",
        torch="2.6+",
    ),
    *rows(
        "torch.accelerator",
        REWRITTEN,
        CONTEXT,
        SILENT,
        {"current_accelerator": ("xla.xla_device()", _WRONG)},
        rule="XLA110",
        torch="2.6+",
    ),
    *rows(
        "torch.accelerator",
        REWRITTEN,
        CONTEXT,
        RAISES,
        {
            "current_device_index": ("xla.xla_device()", "it returns a device, not an index"),
            "current_device_idx": ("xla.xla_device()", "it returns a device, not an index"),
        },
        rule="XLA102",
        torch="2.6+",
    ),
    *rows(
        "torch.accelerator",
        REWRITTEN,
        RENAMED,
        RAISES,
        {"synchronize": "xla.synchronize()"},
        rule="XLA121",
        torch="2.6+",
    ),
    *rows(
        "torch.accelerator",
        REWRITTEN,
        RENAMED,
        RAISES,
        {
            "set_device_index": ("xla.set_device(...)", _ONE),
            "set_device_idx": ("xla.set_device(...)", _ONE),
            "device_index": ("xla.device_index(...)", _ONE),
        },
        rule="XLA103",
        torch="2.6+",
    ),
    *rows(
        "torch.accelerator",
        REMOVED,
        CONTEXT,
        RAISES,
        {
            "current_stream": "XLA has no streams",
            "set_stream": "XLA has no streams",
        },
        rule="XLA123",
        torch="2.6+",
    ),
)

_FIGURES: tuple[Row, ...] = (
    *rows(
        "torch.accelerator",
        REMOVED,
        SAME,
        HARMLESS,
        {"empty_cache": "XLA keeps no cache of freed memory"},
        rule="XLA126",
        torch="2.9+",
    ),
    *rows(
        "torch.accelerator",
        REWRITTEN,
        ARGUMENTS,
        SILENT,
        {
            "memory_allocated": 'xla.memory_info()["bytes_used"]',
            "memory_reserved": 'xla.memory_info()["bytes_reserved"]',
            "max_memory_allocated": 'xla.memory_info()["peak_bytes_used"]',
            "max_memory_reserved": 'xla.memory_info()["peak_bytes_reserved"]',
            "memory_stats": "xla.memory_info()",
        },
        rule="XLA125",
        torch="2.9+",
    ),
    *rows(
        "torch.accelerator",
        REWRITTEN,
        RENAMED,
        RAISES,
        {"reset_peak_memory_stats": "xla.reset_peak_memory_stats()"},
        rule="XLA125",
        torch="2.9+",
    ),
    *rows(
        "torch.accelerator",
        REMOVED,
        CONTEXT,
        RAISES,
        {"reset_accumulated_memory_stats": "XLA does not count this"},
        rule="XLA126",
        torch="2.9+",
    ),
)

ROWS: tuple[Row, ...] = (
    *ACCELERATOR,
    *_FIGURES,
    *also("torch.accelerator.memory", [row.name.rpartition(".")[2] for row in _FIGURES], _FIGURES),
)
