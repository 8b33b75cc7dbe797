"""Mixed precision, and the precision of matrix products."""

from __future__ import annotations

import torch

from . import _tuned
from ._backend import backend
from .devices import DeviceSpec, parse_spec
from .devices import device_type as accelerator_type

_MATMUL_PRECISIONS = ("highest", "high", "medium")


def autocast(
    device_type: DeviceSpec = "cuda",
    dtype: torch.dtype | None = None,
    enabled: bool = True,
    cache_enabled: bool | None = None,
) -> torch.autocast:
    """``torch.autocast`` for the accelerator: a context manager and a decorator.

    ``torch.autocast("cuda")`` leaves XLA tensors in float32, silently (fact 1.71). On XLA each
    operation runs in the type that CUDA's autocast runs it in: matrix products, convolutions and
    attention in ``dtype``, sums, powers, exponentials, norms and losses in float32.

    Args:
        device_type: What the CUDA script had. ``"cpu"`` means the CPU, another name the accelerator.
            A value that is no name is ``enabled``, the first argument of
            ``torch.cuda.amp.autocast``.
        dtype: bfloat16 by default. float16 becomes bfloat16, which needs no loss scaling, wherever
            the device has it.
        enabled: As for torch.
        cache_enabled: As for torch.

    Returns:
        A context manager, and a decorator.

    Example:
        >>> with xla.autocast(dtype=torch.float16):
        ...     print(model(x).dtype)
        torch.bfloat16
    """
    if not isinstance(device_type, (str, torch.device)):
        device_type, enabled, cache_enabled = "cuda", bool(device_type), enabled
    if parse_spec(device_type)[0] == "cpu":
        kind = "cpu"
    else:
        kind = accelerator_type()
        dtype, enabled = _tuned.for_autocast(backend().autocast_dtype(dtype), enabled)
    return torch.autocast(kind, dtype=dtype, enabled=enabled, cache_enabled=cache_enabled)


def is_bf16_supported() -> bool:
    """True if the accelerator computes in bfloat16.

    Returns:
        True or False; True on XLA.

    Example:
        >>> dtype = torch.bfloat16 if xla.is_bf16_supported() else torch.float32
    """
    return backend().is_bf16_supported()


def set_float32_matmul_precision(precision: str) -> None:
    """``torch.set_float32_matmul_precision``, also for XLA (fact 1.108).

    TPUs multiply float32 in bfloat16 unless told otherwise; CUDA does not.

    Args:
        precision: ``"highest"`` (float32), ``"high"`` or ``"medium"`` (bfloat16 on TPU).

    Raises:
        ValueError: for another word.

    Example:
        >>> xla.set_float32_matmul_precision("highest")
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
    """Set the flags of ``torch.backends.cudnn`` that are given, if there is CUDA.

    Elsewhere there is no cuDNN, and nothing to set.

    Args:
        benchmark: As for torch.
        deterministic: As for torch.
        enabled: As for torch.
        allow_tf32: As for torch.

    Example:
        >>> xla.set_cudnn(benchmark=True)
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
