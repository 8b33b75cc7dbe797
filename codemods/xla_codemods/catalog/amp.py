"""`torch.amp`, and what torch itself has of autocast."""

from __future__ import annotations

from .row import (
    ARGUMENTS,
    CONTEXT,
    HARMLESS,
    REMOVED,
    REWRITTEN,
    SAME,
    SILENT,
    STAYS,
    Row,
    also,
    rows,
)

_AUTOCAST = (
    "xla.autocast()",
    "autocast for CUDA leaves XLA tensors in float32; float16 becomes bfloat16",
)

AMP: tuple[Row, ...] = (
    *rows(
        "torch.amp",
        REWRITTEN,
        ARGUMENTS,
        SILENT,
        {"autocast": _AUTOCAST},
        rule="XLA201",
        evidence="fact 1.71",
    ),
    *rows(
        "torch",
        REWRITTEN,
        ARGUMENTS,
        SILENT,
        {"autocast": _AUTOCAST},
        rule="XLA201",
        evidence="fact 1.71",
    ),
    *rows(
        "torch.amp",
        REMOVED,
        CONTEXT,
        SILENT,
        {"GradScaler": "bfloat16 needs no loss scaling"},
        rule="XLA204",
        torch="2.3+",
        evidence="fact 1.73",
    ),
    *rows(
        "torch.amp",
        REWRITTEN,
        ARGUMENTS,
        HARMLESS,
        {
            "custom_fwd": ("torch.amp.custom_fwd(device_type=xla.device_type())", ""),
            "custom_bwd": ("torch.amp.custom_bwd(device_type=xla.device_type())", ""),
        },
        rule="XLA203",
        torch="2.4+",
        evidence="fact 2",
    ),
    *rows(
        "torch.amp",
        STAYS,
        SAME,
        HARMLESS,
        {
            "is_autocast_available": 'pass `xla.device_type()`, not "cuda"',
            "autocast_mode.autocast_decorator": "works with any autocast context",
            "grad_scaler.OptState": "of a GradScaler, which XLA does not need",
        },
        torch="2.4+",
        evidence="docs",
    ),
    *rows(
        "torch",
        REWRITTEN,
        ARGUMENTS,
        SILENT,
        {
            "get_autocast_gpu_dtype": (
                "torch.get_autocast_dtype(xla.device_type())",
                "without a device type it describes CUDA",
            ),
            "set_autocast_gpu_dtype": (
                "torch.set_autocast_dtype(xla.device_type(), dtype)",
                "without a device type it describes CUDA",
            ),
            "is_autocast_enabled": (
                "torch.is_autocast_enabled(xla.device_type())",
                "without a device type it describes CUDA",
            ),
        },
        rule="XLA202",
    ),
)

ROWS: tuple[Row, ...] = (
    *AMP,
    *also(
        "torch.amp.autocast_mode",
        ("autocast", "custom_bwd", "custom_fwd", "is_autocast_available"),
        AMP,
    ),
    *also("torch", ("GradScaler",), AMP),
    *also("torch.amp.grad_scaler", ("GradScaler",), AMP),
)
