"""The counters of torch_xla in a step.

The harness's own reads are subtracted; its other work is part of the step's graph and adds no launch.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

_met: Any = None
_debug_file: Path | None = None
harness_reads = 0
_forward_marks = 0  # marks with no backward pass since the mark before
_passes = 0  # backward passes at the last mark

# Accumulated seconds: metric -> our name. ExecuteTime arrives asynchronously (4.2): it is meant to
# be summed over a run, not read per step.
_TIMES = {
    "CompileTime": "compile_s",
    "ExecuteTime": "execute_s",
    "DeviceLockWait": "wait_s",
    "TransferFromDeviceTime": "read_s",
    "TransferToDeviceTime": "upload_s",
}


def install(metrics: Any) -> None:
    """Begin to count, once torch_xla is there (`torch_xla.debug.metrics`)."""
    global _met, _debug_file
    _met = metrics
    if os.environ.get("PT_XLA_DEBUG_FILE"):
        _debug_file = Path(os.environ["PT_XLA_DEBUG_FILE"])


def active() -> bool:
    """True if this process computes on XLA."""
    return _met is not None


def compiles() -> int:
    """Compilations so far."""
    return int(_met.counter_value("UncachedCompile") or 0) if _met is not None else 0


def compile_seconds() -> float:
    """Return the seconds that all compilations so far took."""
    data = _met.metric_data("CompileTime") if _met is not None else None
    return float(data[1]) / 1e9 if data else 0.0


def reads() -> int:
    """Transfers from the device so far, the harness's included."""
    data = _met.metric_data("TransferFromDeviceTime") if _met is not None else None
    return int(data[0]) if data else 0


def after_mark(passes: int) -> None:
    """The script has marked a step, after so many backward passes in all."""
    global _forward_marks, _passes
    _forward_marks += passes == _passes
    _passes = passes


def sample() -> dict[str, float]:
    """Totals since the start of the process; empty where nothing runs on XLA."""
    if _met is None:
        return {}
    compiled = _met.counter_value("UncachedCompile") or 0
    cached = _met.counter_value("CachedCompile") or 0
    out: dict[str, float] = {
        "compiles": compiled,
        "launches": compiled + cached,
        "marks": _met.counter_value("MarkStep") or 0,
        "forward_marks": _forward_marks,
        "debug_bytes": _debug_size(),
    }
    for metric, name in _TIMES.items():
        data = _met.metric_data(metric)
        out[name] = data[1] / 1e9 if data else 0.0
        if metric == "TransferFromDeviceTime":
            out["reads"] = (data[0] if data else 0) - harness_reads
        if metric == "TransferToDeviceTime":
            out["uploads"] = data[0] if data else 0
    graphs = _met.metric_data("TensorsGraphSize")
    out["graphs"] = graphs[0] if graphs else 0
    return out


def _debug_size() -> int:
    try:
        return _debug_file.stat().st_size if _debug_file is not None else 0
    except OSError:
        return 0


def difference(now: dict[str, float], before: dict[str, float]) -> dict[str, float]:
    """Return a step's share. The graph size is the largest graph's; the debug file's position is kept."""
    out = {name: value - before.get(name, 0) for name, value in now.items()}
    if "debug_bytes" in now:
        out["debug_bytes"] = now["debug_bytes"]
    if "graphs" in out:
        out["graph"] = _largest_of_the_last(int(out.pop("graphs")))
    return out


def _largest_of_the_last(number: int) -> float:
    """Return the size of the largest of the last graphs, or of the last one if a step has none."""
    graphs = _met.metric_data("TensorsGraphSize") if _met is not None else None
    sizes = [size for _, size in graphs[2][-max(number, 1) :]] if graphs else []
    return max(sizes, default=0)


def fallbacks() -> list[str]:
    """Operations that ran on the CPU in place of the device."""
    return sorted(fallback_counts())


def fallback_counts() -> dict[str, int]:
    """The same, with how often each one ran there."""
    names = _met.executed_fallback_ops() if _met is not None else ()
    return {name: int(_met.counter_value(name)) for name in names}
