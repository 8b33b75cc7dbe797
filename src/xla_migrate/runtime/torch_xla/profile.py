"""Traces by torch_xla's profiler: a marker per training step, ranges, and lines of the script."""

from __future__ import annotations

import functools
import importlib
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from ..profiling.meter import LAUNCHING, Meter
from .modules import met, torch_xla, xm

_profiler: Any = importlib.import_module("torch_xla.debug.profiler")
_TraceMe: Any = torch_xla._XLAC.profiler.TraceMe


class Recorder:
    """One trace, from ``start`` to ``stop``; steps are numbered from 0."""

    def __init__(self) -> None:
        self._recording = False
        self._step: Any = None

    def start(self, folder: str) -> None:
        """Begin to record."""
        _profiler.start_trace(folder)
        self._recording = True
        self.open_step()

    def stop(self) -> None:
        """Write ``folder/plugins/profile/TIME/HOST.xplane.pb`` and ``.trace.json.gz``."""
        xm.wait_device_ops()
        self._end_step()
        self._recording = False
        _profiler.stop_trace()

    def span(self, name: str) -> AbstractContextManager[Any]:
        """A range in the trace; nothing while none is recorded."""
        return _TraceMe(name) if self._recording else nullcontext()

    def open_step(self) -> None:
        """Begin a step, or work between steps: ``close_step`` decides which."""
        if self._recording:
            self._step = _TraceMe("step")
            self._step.__enter__()

    def close_step(self, number: int | None) -> None:
        """End the range; with a number it becomes a step marker (``_r`` is what xprof looks for)."""
        if self._step is not None:
            if number is not None:
                self._step.set_metadata(_r=1, step_num=number)
            self._end_step()

    def _end_step(self) -> None:
        if self._step is not None:
            self._step.__exit__(None, None, None)
            self._step = None

    def attach(self, meter: Meter, marked: Any) -> None:
        """Measure step marks, and call ``marked(launched)`` after each."""
        sync = torch_xla.sync

        @functools.wraps(sync)
        def noted(*args: Any, **kwargs: Any) -> Any:
            before = _launches()
            out = meter.measure(LAUNCHING, sync, *args, **kwargs)
            marked(_launches() > before)
            return out

        meter.put(torch_xla, "sync", noted)

    def wait(self) -> None:
        """Until the device has done everything, so that its time is counted."""
        xm.wait_device_ops()

    def spent_inside(self) -> tuple[float, float]:
        """Seconds so far of compiling, and of waiting for the device's previous work."""
        return _seconds("CompileTime"), _seconds("DeviceLockWait")

    def executing(self) -> float | None:
        """Seconds that the device has executed so far."""
        return _seconds("ExecuteTime")


def _seconds(metric: str) -> float:
    data = met.metric_data(metric)
    return float(data[1]) * 1e-9 if data else 0.0


def _launches() -> int:
    return (met.counter_value("UncachedCompile") or 0) + (met.counter_value("CachedCompile") or 0)
