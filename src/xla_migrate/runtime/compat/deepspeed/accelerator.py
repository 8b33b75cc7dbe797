"""`deepspeed.accelerator`: the device through DeepSpeed's interface."""

from __future__ import annotations

from typing import Any

import torch

from ... import device_functions, devices, precision, processes, randomness, step


class Accelerator:
    """The result of ``get_accelerator()``. For other functions, use ``xla_migrate.runtime``."""

    def device_name(self, device_index: int | None = None) -> str:
        """The device as a text that torch takes."""
        return str(devices.xla_device(device_index))

    def current_device_name(self) -> str:
        """The process's device as a text that torch takes."""
        return self.device_name()

    def device(self, device_index: int | None = None) -> torch.device:
        """The process's device."""
        return devices.xla_device(device_index)

    def current_device(self) -> int:
        """Return the device's number on this host."""
        return processes.local_rank()

    def set_device(self, device_index: Any) -> None:
        """Accepted: a process has one device."""
        devices.set_device(device_index)

    def device_count(self) -> int:
        """Return the number of devices of the host."""
        return devices.device_count()

    def is_available(self) -> bool:
        """True on an accelerator."""
        return devices.is_available()

    def communication_backend_name(self) -> str:
        """The backend's name, as ``init_distributed`` takes it."""
        return "nccl" if devices.device_type() == "cuda" else "xla"

    def is_bf16_supported(self) -> bool:
        """True where bfloat16 is fast."""
        return precision.is_bf16_supported()

    def is_fp16_supported(self) -> bool:
        """False on XLA, where float16 is bfloat16."""
        return devices.device_type() == "cuda"

    def synchronize(self, device_index: int | None = None) -> None:
        """Wait for the device."""
        step.synchronize()

    def empty_cache(self) -> None:
        """Nothing on XLA, which frees memory itself."""

    def manual_seed(self, seed: int) -> None:
        """Seed the device's generator."""
        randomness.manual_seed(seed)

    manual_seed_all = manual_seed

    def memory_allocated(self, device_index: int | None = None) -> int:
        """Bytes in use on the device."""
        return device_functions.memory_allocated()

    def max_memory_allocated(self, device_index: int | None = None) -> int:
        """The most bytes that were in use on the device."""
        return device_functions.max_memory_allocated()


def get_accelerator() -> Accelerator:
    """``deepspeed.accelerator.get_accelerator``.

    Returns:
        The device through DeepSpeed's interface.
    """
    return Accelerator()
