"""Devices that a package brings to torch: native TPU (torch_tpu) and Neuron backends.

Torch calls them by what it has for every accelerator, ``torch.accelerator``. Modules such as ``torch.tpu``
lack much of what ``torch.cuda`` has, and torch_tpu 0.2 refuses calls of its module's functions wherever
``torch.accelerator`` has one of that meaning.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import torch
import torch.distributed as dist

from .._backend import memory_figures

_OF_TORCH = ("cpu", "cuda", "xpu", "mps", "mtia")  # "cpu": if there is no accelerator

# torch_tpu compiles an optimizer's step if its step counts are on the device.
_COUNTS_ON_DEVICE = ("tpu",)

# A process of torch_tpu 0.2 has the device that it was started for, and cannot choose another.
_ONE_PER_PROCESS = ("tpu",)


def is_native(kind: str) -> bool:
    """True if devices of this kind come from a package, and not from torch itself."""
    return kind not in _OF_TORCH


def is_one_per_process(kind: str) -> bool:
    """True if a process has one device of this kind, however many the host has."""
    return kind in _ONE_PER_PROCESS


def compile(kind: str, function: Any, options: Mapping[str, Any]) -> Any:
    """``torch.compile`` by the compiler that is registered under the device's name.

    Inductor, torch's default, has no code for these devices. ``mode`` and ``options`` are inductor's, so they are
    not passed on, nor is a ``backend`` for CUDA. If no compiler has that name, the function is returned unchanged.
    Each shape gets a separate graph (``dynamic=False``): these devices need static shapes, and Neuron refuses others.
    """
    asked = options.get("backend")
    if asked in (None, "inductor", "cudagraphs"):
        if kind not in torch._dynamo.list_backends(()):
            return function
        options = {k: v for k, v in options.items() if k not in ("mode", "options")}
        options |= {"backend": kind, "dynamic": False}
    optimizer = getattr(function, "__self__", None)
    if kind in _COUNTS_ON_DEVICE and isinstance(optimizer, torch.optim.Optimizer):
        _count_on_device(optimizer)
    return torch.compile(function, **options)


def _count_on_device(optimizer: torch.optim.Optimizer) -> None:
    for group in optimizer.param_groups:
        if "capturable" in group:
            group["capturable"] = True
            for parameter in group["params"]:
                state = optimizer.state.get(parameter, {})
                if isinstance(state.get("step"), torch.Tensor):
                    state["step"] = state["step"].to(parameter.device)


def process_group_backend(kind: str) -> str | None:
    """The name of the collectives of this kind of device; None if no package has registered any.

    Set explicitly: if torch chooses, torch 2.13 takes gloo for the group's default, which the
    group then does not have, and ``DistributedDataParallel`` fails.
    """
    known: dict[str, str] = dist.Backend.default_device_backend_map
    return known.get(kind)


def rng_state(kind: str, index: int) -> torch.Tensor:
    """The state of a device's random stream."""
    module = torch.get_device_module(kind)
    streams = getattr(module, "default_generators", None)
    state: torch.Tensor = (
        module.get_rng_state(index) if streams is None else streams[index].get_state()
    )
    return state


def set_rng_state(kind: str, state: torch.Tensor, index: int) -> None:
    """Put a device's random stream into a state of ``rng_state``."""
    module = torch.get_device_module(kind)
    streams = getattr(module, "default_generators", None)
    if streams is None:
        module.set_rng_state(state, index)
    else:
        streams[index].set_state(state)


def memory_info(device: torch.device) -> dict[str, int | None]:
    """Return the counters of torch's allocator for the device, in bytes.

    Raises:
        RuntimeError: if it counts nothing.
    """
    memory = torch.accelerator
    try:
        return memory_figures(
            used=memory.memory_allocated(device),
            peak=memory.max_memory_allocated(device),
            limit=_total(device),
            reserved=memory.memory_reserved(device),
            peak_reserved=memory.max_memory_reserved(device),
        )
    except RuntimeError as error:
        raise _no_figures(device) from error


def mem_get_info(device: torch.device) -> tuple[int, int]:
    """Bytes that are free, and all of them.

    Raises:
        RuntimeError: if the device does not say.
    """
    ask: Any = getattr(torch.accelerator, "get_memory_info", None)  # torch 2.10
    try:
        if ask is not None:
            free, total = ask(device)
            return free, total
        known = _total(device)
        if known is not None:
            return known - torch.accelerator.memory_reserved(device), known
    except RuntimeError as error:
        raise _no_figures(device) from error
    raise _no_figures(device)


def reset_peak_memory_stats(device: torch.device) -> None:
    """Count the peak from now on; a warning where the device counts nothing."""
    try:
        torch.accelerator.reset_peak_memory_stats(device)
    except RuntimeError:
        warnings.warn(
            f"torch counts no memory on {device}: there is no peak to reset", stacklevel=4
        )


def _total(device: torch.device) -> int | None:
    properties: Any = getattr(torch.get_device_module(device), "get_device_properties", None)
    try:
        told = None if properties is None else getattr(properties(device), "total_memory", None)
        if told is None and hasattr(torch.accelerator, "get_memory_info"):
            told = torch.accelerator.get_memory_info(device)[1]
    except RuntimeError:
        return None
    return told


def _no_figures(device: torch.device) -> RuntimeError:
    return RuntimeError(
        f"torch has no memory figures for {device}: read them with the device's own profiler, or "
        "remove the call"
    )
