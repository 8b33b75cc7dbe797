"""Mixed precision, and the precision of matrix products."""

from __future__ import annotations

import torch

from ._backend import backend
from .devices import DeviceSpec, parse_spec
from .devices import device_type as accelerator_type

_MATMUL_PRECISIONS = ("highest", "high", "medium")


def autocast(
    device_type: DeviceSpec = None,
    dtype: torch.dtype | None = None,
    enabled: bool = True,
    cache_enabled: bool | None = None,
) -> torch.autocast:
    """``torch.autocast`` for the accelerator: a context manager and a decorator.

    ``torch.autocast("cuda")`` leaves XLA tensors in float32, silently (xla-facts 1.71). XLA's list
    of operations differs from CUDA's (1.72): ``exp``, ``log``, sums and norms, which CUDA runs in
    float32, and ``scaled_dot_product_attention``, which it runs in the lower precision, run in the
    type of their inputs.

    Args:
        device_type: What the CUDA script had. ``"cpu"`` means the CPU, all else the accelerator.
        dtype: bfloat16 by default. float16 becomes bfloat16, which needs no loss scaling, wherever
            the device has it.
        enabled: As for torch.
        cache_enabled: As for torch.
    """
    if parse_spec(device_type)[0] == "cpu":
        kind = "cpu"
    else:
        kind = accelerator_type()
        dtype = backend().autocast_dtype(dtype)
    return torch.autocast(kind, dtype=dtype, enabled=enabled, cache_enabled=cache_enabled)


def is_bf16_supported() -> bool:
    """Whether the accelerator computes in bfloat16."""
    return backend().is_bf16_supported()


def set_float32_matmul_precision(precision: str) -> None:
    """``torch.set_float32_matmul_precision``, also for XLA (xla-facts 1.108).

    TPUs multiply float32 in bfloat16 unless told otherwise; CUDA does not.

    Args:
        precision: ``"highest"`` (float32), ``"high"`` or ``"medium"`` (bfloat16 on TPU).
    """
    if precision not in _MATMUL_PRECISIONS:
        raise ValueError(f"precision {precision!r} is none of {', '.join(_MATMUL_PRECISIONS)}")
    torch.set_float32_matmul_precision(precision)
    backend().set_matmul_precision(precision)


def set_cudnn(
    *,
    benchmark: bool | None = None,
    deterministic: bool | None = None,
    enabled: bool | None = None,
    allow_tf32: bool | None = None,
) -> None:
    """Set the flags of ``torch.backends.cudnn`` that are given, where there is CUDA.

    Elsewhere there is no cuDNN, and nothing to set.
    """
    if accelerator_type() != "cuda":
        return
    flags = {
        "benchmark": benchmark,
        "deterministic": deterministic,
        "enabled": enabled,
        "allow_tf32": allow_tf32,
    }
    for name, value in flags.items():
        if value is not None:
            setattr(torch.backends.cudnn, name, value)
