"""Queries about the device: timing, memory, counters."""

from __future__ import annotations

import time
from typing import Any

import torch

from ._backend import backend
from .devices import DeviceSpec, xla_device
from .step import synchronize


class Event:
    """``torch.cuda.Event``. On CUDA that very class; elsewhere a mark on the host's clock.

    Where work is asynchronous without events, as on XLA, ``record`` of a timing event waits for
    what was launched before, so that ``elapsed_time`` measures the device and not the tracing
    (fact 1.51). It costs a host sync, and cuts the graph: time whole steps with it.
    ``elapsed_time`` is in milliseconds.

    Args:
        enable_timing: True if ``elapsed_time`` will be asked for.
        ignored: ``blocking`` and ``interprocess``, which matter on CUDA.

    Raises:
        ValueError: by ``elapsed_time``, of events that were not recorded, or made without
            ``enable_timing``.

    Example:
        >>> start, end = xla.Event(enable_timing=True), xla.Event(enable_timing=True)
        >>> start.record()
        >>> y = model(x)
        >>> end.record()
        >>> start.elapsed_time(end) > 0
        True
    """

    def __new__(cls, enable_timing: bool = False, **ignored: Any) -> Any:
        native = backend().event({"enable_timing": enable_timing, **ignored})
        return super().__new__(cls) if native is None else native

    def __init__(self, enable_timing: bool = False, **ignored: Any) -> None:
        self._timed = enable_timing
        self._recorded: float | None = None

    @property
    def device(self) -> torch.device:
        """The accelerator of this process."""
        return xla_device()

    @property
    def event_id(self) -> int:
        """0, as torch has it for an event that is not a device's."""
        return 0

    cuda_event = event_id

    def ipc_handle(self) -> bytes:
        """Not available: other processes cannot wait for this one's device."""
        raise NotImplementedError(
            "Event.ipc_handle: only CUDA events are visible to other processes"
        )

    @classmethod
    def from_ipc_handle(cls, device: Any, handle: bytes) -> Event:
        """Not available: other processes cannot wait for this one's device."""
        raise NotImplementedError(
            "Event.from_ipc_handle: only CUDA events can be shared between processes"
        )

    def record(self, stream: Any = None) -> None:
        """Mark this point in the work launched so far."""
        if self._timed:
            synchronize()
        self._recorded = time.perf_counter()

    def synchronize(self) -> None:
        """Wait until the work before this event is done."""
        synchronize()

    def wait(self, stream: Any = None) -> None:
        """Order later work after this event: there is one stream, which does that."""

    def query(self) -> bool:
        """True if the work before this event is done; waits for it, so the answer is yes."""
        synchronize()
        return True

    def elapsed_time(self, end_event: Event) -> float:
        """Milliseconds from this event to ``end_event``."""
        if not (self._timed and end_event._timed):
            raise ValueError("both events must be created with enable_timing=True")
        if self._recorded is None or end_event._recorded is None:
            raise ValueError("both events must be recorded before elapsed_time")
        return (end_event._recorded - self._recorded) * 1000.0


def memory_info(device: DeviceSpec = None) -> dict[str, int | None]:
    """The device's memory, in bytes.

    On XLA:CPU and on the CPU, the memory of this process, which is what computing there takes.

    Args:
        device: As for ``xla_device``.

    Returns:
        ``bytes_used`` and ``peak_bytes_used``; ``bytes_reserved`` and ``peak_bytes_reserved``, which
        are equal to them if the allocator reserves nothing beyond use; ``bytes_limit``. A value that
        is not measured is None.

    Raises:
        RuntimeError: if the device tells nothing of its memory.

    Example:
        >>> sorted(xla.memory_info())
        ['bytes_limit', 'bytes_reserved', 'bytes_used', 'peak_bytes_reserved', 'peak_bytes_used']
    """
    return backend().memory_info(xla_device(device))


def mem_get_info(device: DeviceSpec = None) -> tuple[int, int]:
    """``torch.cuda.mem_get_info``: the bytes of the device that are free, and all of them.

    Args:
        device: As for ``xla_device``.

    Returns:
        ``(free, total)``, in bytes.

    Raises:
        RuntimeError: if the device tells nothing of its memory.

    Example:
        >>> free, total = xla.mem_get_info()
        >>> 0 <= free <= total
        True
    """
    return backend().mem_get_info(xla_device(device))


def reset_peak_memory_stats(device: DeviceSpec = None) -> None:
    """Count ``peak_bytes_used`` from now on. Warns if the device cannot do so (TPU).

    Args:
        device: As for ``xla_device``.

    Example:
        >>> xla.reset_peak_memory_stats()
    """
    backend().reset_peak_memory_stats(xla_device(device))


def metrics() -> dict[str, int | None]:
    """Return the cost of tracing in this process so far. Subtract two results for the cost of a step.

    Returns:
        ``compiles``, ``launches``, ``host_reads`` (transfers from the device), ``uploads`` (to it),
        ``fallbacks`` (operations run on the CPU) and ``step_marks``. Each is
        None on eager backends, because they trace nothing.

    Example:
        >>> before = xla.metrics()
        >>> y = model(x)
        >>> xla.mark_step()
        >>> xla.metrics()["launches"] - before["launches"]
        1
    """
    return backend().metrics()
