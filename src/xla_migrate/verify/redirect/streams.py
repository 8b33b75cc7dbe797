"""Streams and events of a redirected run: everything is done when the call returns."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Any

import torch

from .devices import cuda_index, device, state


class Stream:
    """A `torch.cuda.Stream` on which work is finished as soon as it is issued."""

    def __init__(self, device: Any = None, priority: int = 0, **kwargs: Any) -> None:
        self.device_index = cuda_index("cuda" if device is None else device) or 0
        self.priority = priority
        self.cuda_stream = self.stream_id = 0
        self.device_type = 1

    @property
    def device(self) -> torch.device:
        """The device of the stream."""
        return device(self.device_index)

    def wait_event(self, event: RedirectedEvent) -> None:
        """Nothing to wait for."""

    def wait_stream(self, stream: Stream) -> None:
        """Nothing to wait for."""

    def record_event(self, event: RedirectedEvent | None = None) -> RedirectedEvent:
        """Record `event` (a new one by default) now."""
        event = event or RedirectedEvent()
        event.record(self)
        return event

    def query(self) -> bool:
        """All work is done."""
        return True

    def synchronize(self) -> None:
        """All work is done."""

    def __enter__(self) -> Stream:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        return None


class RedirectedEvent:
    """A `torch.cuda.Event` that reads the wall clock: on the CPU that is the real time of the work."""

    def __init__(
        self,
        enable_timing: bool = False,
        blocking: bool = False,
        interprocess: bool = False,
        external: bool = False,
        device: Any = None,
    ) -> None:
        self._timing = enable_timing
        self._at: float | None = None

    def record(self, stream: Stream | None = None) -> None:
        """Take the time."""
        self._at = time.perf_counter()

    def wait(self, stream: Stream | None = None) -> None:
        """Nothing to wait for."""

    def query(self) -> bool:
        """All work is done."""
        return True

    def synchronize(self) -> None:
        """Nothing to wait for."""

    def elapsed_time(self, end_event: RedirectedEvent) -> float:
        """Milliseconds from this event to `end_event`.

        Raises:
            ValueError: either was not recorded, or made without `enable_timing`, as CUDA's.
        """
        if not (self._timing and end_event._timing):
            raise ValueError("Both events must be created with argument 'enable_timing=True'.")
        if self._at is None or end_event._at is None:
            raise ValueError("Both events must be recorded before calculating elapsed time.")
        return (end_event._at - self._at) * 1e3


class StreamContext:
    """`with torch.cuda.stream(s):`."""

    def __init__(self, stream: Stream | None) -> None:
        self.stream = stream

    def __enter__(self) -> None:
        return None

    def __exit__(self, *exc: object) -> None:
        return None


def current_stream(device: Any = None) -> Stream:
    """The one stream there is."""
    return Stream(state.current if device is None else device)
