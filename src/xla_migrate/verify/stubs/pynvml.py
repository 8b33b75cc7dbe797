"""pynvml without a GPU: every call says so with NVML's own error."""

from __future__ import annotations

from typing import Any


class NVMLError(Exception):
    """NVML's base error."""


class NVMLError_LibraryNotFound(NVMLError):  # noqa: N801 - pynvml's name
    """No NVML library."""


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    if not name.startswith("nvml"):
        return 0  # NVML_TEMPERATURE_GPU and other constants

    def unavailable(*args: Any, **kwargs: Any) -> Any:
        raise NVMLError_LibraryNotFound(f"{name}: NVML needs a GPU; this run is on the CPU")

    return unavailable
