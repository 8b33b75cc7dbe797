"""Mixed precision, and the precision of matrix products."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.utils._pytree import tree_map_only

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


def mixed_precision(model: Any, enabled: bool = True) -> Any:
    """``apex.amp.initialize`` of a model: forward runs under ``autocast``, outputs are float32.

    Args:
        model: A module, or a list or tuple of them; it is changed in place and handed back.
        enabled: Otherwise it stays as it is.
    """
    if enabled:
        for module in model if isinstance(model, list | tuple) else [model]:
            _AutocastHooks().attach(module)
    return model


class _AutocastHooks:
    """Around a module's forward. Hooks are copied and pickled with the module."""

    def __init__(self) -> None:
        self._entered: list[torch.autocast] = []

    def attach(self, module: nn.Module) -> None:
        module.register_forward_pre_hook(self._enter)
        module.register_forward_hook(self._leave, always_call=True)

    def _enter(self, module: nn.Module, args: Any) -> None:
        context = autocast()
        context.__enter__()  # type: ignore[no-untyped-call]
        self._entered.append(context)

    def _leave(self, module: nn.Module, args: Any, output: Any) -> Any:
        if self._entered:
            self._entered.pop().__exit__(None, None, None)
        return tree_map_only(torch.Tensor, _single, output)


def _single(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.float() if tensor.dtype in (torch.bfloat16, torch.float16) else tensor


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
