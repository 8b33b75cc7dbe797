"""The report's events on torch_xla: its counters before and after each call of torch."""

from __future__ import annotations

import importlib
from typing import Any

from torch.overrides import TorchFunctionMode

from .line_report import COMPILED, FALLBACK, READ, note

_READ_COUNTER = "aten::_local_scalar_dense"  # served by a "fallback" of this name
_known: dict[str, int] = {}
_met: Any = None


def install() -> None:
    """Watch this thread, and all step marks, from now on. Starts no device."""
    global _met
    _met = importlib.import_module("torch_xla.debug.metrics")
    xm: Any = importlib.import_module("torch_xla.core.xla_model")
    closures = xm._run_step_closures

    def run_step_closures() -> Any:  # torch_xla calls it after each mark
        _count("step mark")
        out = closures()
        _count("deferred values")
        return out

    xm._run_step_closures = run_step_closures
    _Watch().__enter__()  # type: ignore[no-untyped-call]


class _Watch(TorchFunctionMode):
    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        _count("tensors to the host")  # read since the last call, as `xla.save` does
        try:
            return func(*args, **(kwargs or {}))
        finally:
            _count(getattr(func, "__name__", str(func)))


def _count(operation: str) -> None:
    """Attribute what has been counted since the last call to an operation."""
    reads, compiles = _reads(), int(_met.counter_value("UncachedCompile") or 0)
    if compiles > _known.get("compiles", 0):
        is_read = reads > _known.get("reads", 0)
        what = operation if is_read else "step mark"
        note(COMPILED, what, compiles - _known.get("compiles", 0))
    if reads > _known.get("reads", 0):
        fallbacks = _fallbacks()
        for name, times in fallbacks.items():
            if times > _known.get(name, 0):
                note(FALLBACK, name, times - _known.get(name, 0))
        if all(times == _known.get(name, 0) for name, times in fallbacks.items()):
            note(READ, operation, 1)
        _known.update(fallbacks)
    _known.update(reads=reads, compiles=compiles)


def _reads() -> int:
    data = _met.metric_data("TransferFromDeviceTime")
    return int(data[0]) if data else 0


def _fallbacks() -> dict[str, int]:
    names = (name for name in _met.counter_names() if name.startswith("aten::"))
    return {name: int(_met.counter_value(name)) for name in names if name != _READ_COUNTER}
