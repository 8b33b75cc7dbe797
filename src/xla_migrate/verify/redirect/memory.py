"""Memory figures of a redirected run: the process's own, which is where its tensors are."""

from __future__ import annotations

import os
from typing import Any

_PAGE = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096


def _status(field: str) -> int | None:
    try:
        with open("/proc/self/status", encoding="ascii") as file:
            for line in file:
                if line.startswith(field + ":"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    return None


def total() -> int:
    """Physical memory of the machine, in bytes."""
    return os.sysconf("SC_PHYS_PAGES") * _PAGE


def used(device: Any = None) -> int:
    """The resident set of the process, in bytes."""
    resident = _status("VmRSS")
    return resident if resident is not None else _highest_ever()


def peak(device: Any = None) -> int:
    """The highest resident set since the start or the last reset, in bytes."""
    high = _status("VmHWM")
    return high if high is not None else _highest_ever()


def _highest_ever() -> int:
    import resource
    import sys

    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def reset_peak(device: Any = None) -> None:
    """Reset the peak if the kernel can (Linux: writing 5 to clear_refs)."""
    try:
        with open("/proc/self/clear_refs", "w", encoding="ascii") as file:
            file.write("5")
    except OSError:
        pass


def info(device: Any = None) -> tuple[int, int]:
    """(free, total) in bytes, as `torch.cuda.mem_get_info`."""
    return max(0, total() - used()), total()


def stats(device: Any = None) -> dict[str, int]:
    """The entries of `torch.cuda.memory_stats` that have a meaning here."""
    now, high = used(), peak()
    return {
        f"{kind}_bytes.all.{when}": value
        for kind in ("allocated", "active", "reserved")
        for when, value in (("current", now), ("peak", high))
    }


def summary(device: Any = None, abbreviated: bool = False) -> str:
    """A line for `torch.cuda.memory_summary`."""
    return (
        f"redirected to the CPU: resident {used() / 2**20:.1f} MiB, peak {peak() / 2**20:.1f} MiB"
    )
