"""The memory of this process, for devices that are the host."""

from __future__ import annotations

import warnings
from pathlib import Path

from ._backend import memory_figures

_STATUS = Path("/proc/self/status")
_LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))


def memory_info() -> dict[str, int | None]:
    """Resident set, its peak, and what the machine or its container allows.

    Raises:
        RuntimeError: if there is no /proc.
    """
    if not _STATUS.exists():
        raise RuntimeError("the memory of this process can only be read on Linux")
    resident = _kilobytes(_STATUS)
    allowed = [_kilobytes(Path("/proc/meminfo"))["MemTotal"]]
    for limit in _LIMITS:
        if limit.exists() and (text := limit.read_text().strip()).isdigit():
            allowed.append(int(text))
    return memory_figures(resident["VmRSS"], resident["VmHWM"], min(allowed))


def mem_get_info() -> tuple[int, int]:
    """Return the memory that this process can still use, and the limit of the machine or its container."""
    figures = memory_info()
    used, limit = figures["bytes_used"], figures["bytes_limit"]
    assert used is not None
    assert limit is not None
    return min(_kilobytes(Path("/proc/meminfo"))["MemAvailable"], limit - used), limit


def reset_peak() -> None:
    """Count the peak from now on; Linux does that on request."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        warnings.warn("the peak of memory cannot be reset on this system", stacklevel=3)


def _kilobytes(path: Path) -> dict[str, int]:
    lines = (line.split() for line in path.read_text().splitlines())
    return {line[0].rstrip(":"): int(line[1]) * 1024 for line in lines if line[2:] == ["kB"]}
