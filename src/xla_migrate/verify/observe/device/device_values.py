"""Numbers that are still on the device: kept as references, fetched together when it is cheap.

On XLA a value read early would split the step's graph (facts 3.20, 3.21). So results of the
harness stay on the device, as outputs of the step's own graph, and are fetched in one transfer after
a step mark, many steps at a time.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch

from ..process import clock
from . import counters

EVERY_STEPS = 25
EVERY_SECONDS = 5.0

_pending: list[tuple[list[torch.Tensor], Callable[[list[list[float]]], None]]] = []
_last_fetch = time.monotonic()


def later(tensors: list[torch.Tensor], use: Callable[[list[list[float]]], None]) -> None:
    """Call `use` with the tensors' numbers, at once on the CPU, else after a later step mark."""
    if all(real_device(t).type == "cpu" for t in tensors):
        use([_listed(t) for t in tensors])
    else:
        _pending.append((tensors, use))


def local(tensor: torch.Tensor) -> torch.Tensor:
    """Return the part of a DTensor that this process holds; any other tensor unchanged."""
    part: torch.Tensor | None = getattr(tensor, "_local_tensor", None)
    return tensor if part is None else part


def real_device(tensor: torch.Tensor) -> torch.device:
    """Return the device of the tensor, whatever a redirected run makes it report."""
    with torch._C.DisableTorchFunction():  # type: ignore[no-untyped-call]
        device: torch.device = torch._C.TensorBase.device.__get__(tensor)
    return device


def _listed(tensor: torch.Tensor) -> list[float]:
    values: Any = tensor.double().flatten().tolist()
    return [float(v) for v in values]


def after_mark() -> None:
    """A graph has just been launched: fetch if enough has gathered."""
    due = len(_pending) > EVERY_STEPS or (
        len(_pending) > 1 and time.monotonic() - _last_fetch > EVERY_SECONDS
    )
    if due:
        fetch(keep=1)  # the newest is still being computed: reading it would wait


def fetch(keep: int = 0) -> None:
    """Fetch everything but the `keep` newest."""
    global _last_fetch
    ready = _pending[: len(_pending) - keep]
    if not ready:
        return
    with clock.harness():
        del _pending[: len(ready)]
        before = counters.reads()
        host = iter(_to_host([t for tensors, _ in ready for t in tensors]))
        counters.harness_reads += counters.reads() - before
        for tensors, use in ready:
            use([_listed(next(host)) for _ in tensors])
        _last_fetch = time.monotonic()


def _to_host(tensors: list[torch.Tensor]) -> list[torch.Tensor]:
    if counters.active():
        from torch_xla import _XLAC  # type: ignore[attr-defined]

        on_xla = [real_device(t).type == "xla" for t in tensors]
        xla = [t for t, there in zip(tensors, on_xla, strict=True) if there]
        moved = iter(_XLAC._xla_get_cpu_tensors(xla))
        return [next(moved) if there else t for t, there in zip(tensors, on_xla, strict=True)]
    with torch._C.DisableTorchFunction():  # type: ignore[no-untyped-call]
        return [torch._C.TensorBase.cpu(t) for t in tensors]
