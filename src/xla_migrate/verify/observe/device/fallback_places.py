"""The lines of operations that run on the CPU because the device has no kernel. torch_xla only counts them."""

from __future__ import annotations

from typing import Any

from torch.overrides import TorchFunctionMode

from ..process import records, where
from . import counters

_times: dict[str, int] = {}
_written: set[tuple[str, str]] = set()


def install() -> None:
    """Write a record for each operation and line from now on, in this process's main thread."""
    _Watch().__enter__()  # type: ignore[no-untyped-call]


class _Watch(TorchFunctionMode):
    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        out = func(*args, **(kwargs or {}))
        for name, times in counters.fallback_counts().items():
            if times > _times.get(name, 0):
                _times[name] = times
                _note(name, where.caller())
        return out


def _note(operation: str, place: str) -> None:
    if (operation, place) not in _written:
        _written.add((operation, place))
        records.write("fallback", operation=operation, where=place)
