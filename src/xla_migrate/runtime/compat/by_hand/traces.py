"""Traces on eager backends: ranges in whatever trace is recorded, and ``xla.profile`` in place of a server."""

from __future__ import annotations

import functools
import logging
import os
from collections.abc import Callable
from typing import Any, TypeVar

from ...profiling.recording import profile, range_pop, range_push

F = TypeVar("F", bound=Callable[..., Any])
_log = logging.getLogger("xla_migrate")
_NO_SERVER = (
    "xla.profiler.%s: only torch_xla has a profile server, so nothing is recorded here. `with "
    "xla.profile(folder):` records one on every backend"
)
_running: list[profile] = []


class _Server:
    """The object that keeps torch_xla's server alive; here there is no server."""


def start_server(port: int, only_on_master: bool = True) -> object:
    _log.warning(_NO_SERVER, "start_server")
    return _Server()


def trace(service_addr: str, logdir: str, *args: Any, **kwargs: Any) -> None:
    _log.warning(_NO_SERVER, "trace")


def trace_detached(service_addr: str, logdir: str, *args: Any, **kwargs: Any) -> None:
    _log.warning(_NO_SERVER, "trace_detached")


class Trace:
    """A range of this name."""

    def __init__(self, name: str, **kwargs: Any) -> None:
        self.name = name

    def __enter__(self) -> None:
        range_push(self.name)

    def __exit__(self, *error: object) -> None:
        range_pop()


class StepTrace(Trace):
    """A range of a step's; there is no graph for it to end."""


def trace_me(scope: str) -> Callable[[F], F]:
    def decorator(function: F) -> F:
        @functools.wraps(function)
        def traced(*args: Any, **kwargs: Any) -> Any:
            with Trace(scope):
                return function(*args, **kwargs)

        return traced  # type: ignore[return-value]

    return decorator


def start_trace(log_dir: str | os.PathLike[str]) -> None:
    if _running:
        raise RuntimeError(
            "Profile has already been started. Only one profile may be run at a time."
        )
    _running.append(profile(log_dir).__enter__())


def stop_trace() -> None:
    if not _running:
        raise RuntimeError("No profile started")
    _running.pop().__exit__(None, None, None)
