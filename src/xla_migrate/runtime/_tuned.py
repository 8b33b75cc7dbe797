"""Settings from outside, which go before what the script says: how `xla-migrate tune` varies them.

Environment variables, read when the runtime is imported:

    XLA_MIGRATE_BATCHES_PER_EXECUTION, XLA_MIGRATE_LOADER_PREFETCH_SIZE,
    XLA_MIGRATE_DEVICE_PREFETCH_SIZE, XLA_MIGRATE_TRANSFER_THREADS   of every MpDeviceLoader
    XLA_MIGRATE_READ_AHEAD=0        every batch is read when the loop needs it
    XLA_MIGRATE_WORKERS             processes of the DataLoader in every MpDeviceLoader
    XLA_MIGRATE_PRECISION           of xla.autocast: float32 switches it off, bfloat16 on
    XLA_MIGRATE_TORCH_COMPILE=1     xla.compile is torch.compile(backend="openxla")
"""

from __future__ import annotations

import dataclasses
import os
from typing import Any, TypeVar

import torch
from torch.utils.data import DataLoader

T = TypeVar("T")

_OF_LOADERS = {
    "batches_per_execution": "XLA_MIGRATE_BATCHES_PER_EXECUTION",
    "loader_prefetch_size": "XLA_MIGRATE_LOADER_PREFETCH_SIZE",
    "device_prefetch_size": "XLA_MIGRATE_DEVICE_PREFETCH_SIZE",
    "host_to_device_transfer_threads": "XLA_MIGRATE_TRANSFER_THREADS",
}
_PRECISION = os.environ.get("XLA_MIGRATE_PRECISION", "")
_TORCH_COMPILE = os.environ.get("XLA_MIGRATE_TORCH_COMPILE", "")
used: set[str] = set()  # variables that something has asked for


def _number(variable: str) -> int | None:
    text = os.environ.get(variable, "")
    if not text:
        return None
    if not text.isdigit():
        raise ValueError(f"{variable}={text}: must be a number from 0")
    return int(text)


_numbers = {name: _number(variable) for name, variable in _OF_LOADERS.items()}
_workers = _number("XLA_MIGRATE_WORKERS")
if _PRECISION not in ("", "float32", "bfloat16"):
    raise ValueError(f"XLA_MIGRATE_PRECISION={_PRECISION}: there is float32 and bfloat16")
_passes = 0


def for_loader(tuning: T) -> T:
    """A loader's arguments (a dataclass), with those from outside in their place."""
    used.update(_OF_LOADERS.values(), ("XLA_MIGRATE_READ_AHEAD",))
    given = {name: value for name, value in _numbers.items() if value is not None}
    return dataclasses.replace(tuning, **given) if given else tuning  # type: ignore[type-var]


def reads_ahead() -> bool:
    """Return False if batches must be read only when the loop requests them."""
    return os.environ.get("XLA_MIGRATE_READ_AHEAD") != "0"


def set_workers(loader: Any) -> None:
    """Give a DataLoader another number of worker processes; other loaders have none."""
    if not isinstance(loader, DataLoader):
        return
    used.add("XLA_MIGRATE_WORKERS")
    if _workers is not None and _workers != loader.num_workers:
        loader.num_workers = _workers
        loader.prefetch_factor = (loader.prefetch_factor or 2) if _workers else None


def for_autocast(dtype: torch.dtype | None, enabled: bool) -> tuple[torch.dtype | None, bool]:
    """The type and switch of an autocast."""
    used.add("XLA_MIGRATE_PRECISION")
    if _PRECISION == "bfloat16":
        return torch.bfloat16, True
    return dtype, enabled and _PRECISION != "float32"


def compiles() -> bool:
    """True if xla.compile compiles on XLA."""
    used.add("XLA_MIGRATE_TORCH_COMPILE")
    return _TORCH_COMPILE == "1"


def pass_begins() -> None:
    """A loop over a device loader has begun."""
    global _passes
    _passes += 1


def pass_ends() -> None:
    """It is over."""
    global _passes
    _passes -= 1


def loader_marks() -> bool:
    """Return True if the loader adds the step marks, because several batches form one graph."""
    return _passes > 0 and (_numbers["batches_per_execution"] or 1) > 1
