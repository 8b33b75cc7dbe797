"""The module of device functions that ``torch.get_device_module`` gives for CUDA, and that torch lacks for XLA.

This file is that module for XLA: its functions have the names and arguments of ``torch.cuda``.
"""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager
from types import ModuleType
from typing import Any

import torch

from . import devices, randomness, services
from .devices import DeviceSpec, device_count, is_available, is_initialized, set_device
from .precision import is_bf16_supported
from .randomness import get_rng_state, get_rng_state_all, set_rng_state, set_rng_state_all
from .services import Event, mem_get_info, reset_peak_memory_stats
from .step import synchronize as _synchronize

__all__ = [
    "Event",
    "current_device",
    "device",
    "device_count",
    "empty_cache",
    "get_device_name",
    "get_device_properties",
    "get_rng_state",
    "get_rng_state_all",
    "init",
    "ipc_collect",
    "is_available",
    "is_bf16_supported",
    "is_initialized",
    "manual_seed",
    "manual_seed_all",
    "max_memory_allocated",
    "max_memory_reserved",
    "mem_get_info",
    "memory_allocated",
    "memory_reserved",
    "reset_peak_memory_stats",
    "set_device",
    "set_rng_state",
    "set_rng_state_all",
    "synchronize",
]


def device_module(spec: DeviceSpec = None) -> ModuleType:
    """``torch.get_device_module``, and ``getattr(torch, device.type)``, which fail for XLA (fact 1.3).

    Args:
        spec: As for ``xla_device``.

    Returns:
        On XLA a module with the functions of ``torch.cuda`` that XLA has an equivalent for; elsewhere torch's
        own module of the device: ``torch.cuda``, ``torch.cpu``.

    Raises:
        ValueError: if ``spec`` names no device.

    Example:
        >>> xla.device_module("cuda").is_available()
        True
    """
    kind = devices.xla_device(spec).type
    if kind == "xla":
        return sys.modules[__name__]
    module: ModuleType = torch.get_device_module(kind)
    return module


def __getattr__(name: str) -> Any:
    raise AttributeError(
        f"XLA has no equivalent of torch.cuda.{name}, which was taken from a module of device functions: call it on CUDA only"
    )


def init() -> None:
    """Nothing: the device is initialised when it is first used."""


def current_device() -> int:
    """The index of the process's device."""
    return devices.xla_device().index or 0


def device(device: DeviceSpec) -> AbstractContextManager[Any]:
    """See ``xla.device_index``."""
    return devices.device_index(device)


def get_device_name(device: DeviceSpec = None) -> str:
    """See ``xla.device_name``."""
    return devices.device_name(device)


def get_device_properties(device: DeviceSpec = None) -> devices.DeviceProperties:
    """See ``xla.device_properties``."""
    return devices.device_properties(device)


def synchronize(device: DeviceSpec = None) -> None:
    """See ``xla.synchronize``."""
    _synchronize()


def empty_cache() -> None:
    """Nothing: XLA frees memory itself."""


def ipc_collect() -> None:
    """Nothing: XLA shares no memory between processes."""


def manual_seed(seed: int) -> None:
    """Seed the device's generator, and leave the CPU's."""
    randomness.manual_seed(seed, device_only=True)


manual_seed_all = manual_seed


def memory_allocated(device: DeviceSpec = None) -> int:
    """Bytes in use; 0 if the device does not tell."""
    return services.memory_info(device)["bytes_used"] or 0


def max_memory_allocated(device: DeviceSpec = None) -> int:
    """The most bytes that were in use; 0 if the device does not tell."""
    return services.memory_info(device)["peak_bytes_used"] or 0


def memory_reserved(device: DeviceSpec = None) -> int:
    """Bytes that are reserved; 0 if the device does not tell."""
    return services.memory_info(device)["bytes_reserved"] or 0


def max_memory_reserved(device: DeviceSpec = None) -> int:
    """The most bytes that were reserved; 0 if the device does not tell."""
    return services.memory_info(device)["peak_bytes_reserved"] or 0
