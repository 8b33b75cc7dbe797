"""Traces by torch's own profiler, for what is not torch_xla."""

from __future__ import annotations

import os
import socket
import time
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch

from ..profiling.meter import Meter


class Recorder:
    """One trace, from ``start`` to ``stop``; torch's profiler marks each step as ProfilerStep#N."""

    def __init__(self) -> None:
        self._profile: Any = None
        self._folder = ""

    def start(self, folder: str) -> None:
        """Begin to record, all activities that torch supports here."""
        self._folder = folder
        self._profile = torch.profiler.profile(schedule=_record_all)
        self._profile.__enter__()

    def stop(self) -> None:
        """Write ``folder/HOST_PROCESS.TIME.pt.trace.json``, as TensorBoard and Perfetto read it."""
        profile, self._profile = self._profile, None
        profile.__exit__(None, None, None)
        os.makedirs(self._folder, exist_ok=True)
        name = f"{socket.gethostname()}_{os.getpid()}.{time.time_ns()}.pt.trace.json"
        profile.export_chrome_trace(os.path.join(self._folder, name))

    def span(self, name: str) -> AbstractContextManager[Any]:
        """Return an empty context: torch's profiler sees ``record_function`` without help."""
        return nullcontext()

    def open_step(self) -> None:
        """The one that follows is open already."""

    def close_step(self, number: int | None) -> None:
        """The next step begins."""
        if number is not None and self._profile is not None:
            self._profile.step()

    def attach(self, meter: Meter, marked: Any) -> None:
        """Marks do nothing here: a step ends with its optimizer's."""

    def wait(self) -> None:
        """Until the device has done everything."""
        if torch.accelerator.is_available():
            torch.accelerator.synchronize()

    def spent_inside(self) -> tuple[float, float]:
        """Nothing is compiled, and no call waits without being asked to."""
        return 0.0, 0.0

    def executing(self) -> float | None:
        """The trace tells; nothing counts it meanwhile."""
        return None


def _record_all(step: int) -> torch.profiler.ProfilerAction:
    return torch.profiler.ProfilerAction.RECORD
