"""A clock that runs at another rate: what a script then prints differently follows from the time."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

_CLOCKS = ("time", "monotonic", "perf_counter", "process_time", "thread_time")
_OF_DATE = ("localtime", "gmtime", "ctime")
# Packages that wait by the clock: a fast one would end their timeouts.
_REAL = sys.stdlib_module_names | {"torch", "torch_xla", "xla_migrate"}
_EVENTS = "xla_migrate.verify.redirect"  # times of CUDA, which the script reads


class _Clock:
    """Replaces a built-in function; like one, it does not become a method of a class that holds it."""

    def __init__(self, real: Callable[..., Any], other: Callable[..., Any]) -> None:
        self.real, self.other = real, other
        self.__name__ = real.__name__

    def __call__(self, *args: Any) -> Any:
        caller = str(sys._getframe(1).f_globals.get("__name__", ""))
        is_real = caller.partition(".")[0] in _REAL and not caller.startswith(_EVENTS)
        return (self.real if is_real else self.other)(*args)


def install(rate: int) -> None:
    """Let the clocks of `time` run `rate` times as fast, for all but `_REAL`."""
    for name in _CLOCKS:
        _replace(name, _faster(getattr(time, name), rate))
        _replace(f"{name}_ns", _faster(getattr(time, f"{name}_ns"), rate))
    now = time.time
    for name in _OF_DATE:
        _replace(name, _of_date(getattr(time, name), now))
    real = time.strftime
    _replace("strftime", lambda form, *when: real(form, *(when or (time.localtime(now()),))))


def _replace(name: str, other: Callable[..., Any]) -> None:
    setattr(time, name, _Clock(getattr(time, name), other))


def _faster(real: Callable[[], Any], rate: int) -> Callable[[], Any]:
    start = real()
    return lambda: start + rate * (real() - start)


def _of_date(real: Callable[..., Any], now: Callable[[], float]) -> Callable[..., Any]:
    return lambda *when: real(*(when or (now(),)))
