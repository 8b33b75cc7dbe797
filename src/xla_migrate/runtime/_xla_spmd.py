"""SPMD of torch_xla: a mesh of all devices, and batches split along it."""

from __future__ import annotations

import functools
import importlib
from typing import Any

import torch

from ._xla_modules import xr

_devices = 0


def use() -> int:
    """Turn it on; how many devices there are."""
    global _devices
    if not xr.is_spmd():
        xr.use_spmd()
    _devices = int(xr.global_runtime_device_count())
    return _devices


def along_the_batch(tensor: torch.Tensor) -> Any:
    """How a tensor of a batch is split: by its first dimension. None for on all devices.

    For each number of dimensions a spec of its own: torch_xla silently puts a tensor with any other
    number on all devices (xla-facts 1.92).
    """
    if _devices < 2 or tensor.dim() == 0:
        return None
    return _spec(_devices, tensor.dim())


@functools.cache
def _spec(devices: int, dims: int) -> Any:
    sharding: Any = importlib.import_module("torch_xla.distributed.spmd")
    mesh = sharding.Mesh(list(range(devices)), (devices,), ("data",))
    return sharding.ShardingSpec(mesh, ("data", *[None] * (dims - 1)))
