"""SPMD of torch_xla: a mesh of all devices, and batches split along it."""

from __future__ import annotations

import functools
import importlib
from typing import Any

import torch

from .modules import torch_xla, xr

_devices = 0
_ON_ALL = "{replicated}"  # as torch_xla writes it


def use() -> int:
    """Turn it on; how many devices there are."""
    global _devices
    if not xr.is_spmd():
        if torch_xla._XLAC._xla_get_spmd_config_is_locked():
            # torch_xla goes on, and ends the process without an exception at the next step mark.
            raise RuntimeError(
                "use_spmd() comes too late, because the device has been used: call it at the beginning of the script"
            )
        xr.use_spmd()
    _devices = int(xr.global_runtime_device_count())
    return _devices


def along_the_batch(tensor: torch.Tensor) -> Any:
    """Return how a tensor of a batch is split: by its first dimension, or None for a copy on each device.

    Each number of dimensions needs a separate spec: torch_xla silently puts a tensor with any other
    number on all devices (fact 1.92).
    """
    if _devices < 2 or tensor.dim() == 0:
        return None
    return _spec(_devices, tensor.dim())


@functools.cache
def _spec(devices: int, dims: int) -> Any:
    return _sharding().ShardingSpec(_mesh(devices), ("data", *[None] * (dims - 1)))


def shard(tensor: torch.Tensor) -> None:
    """Split a parameter over the devices, along its longest dimension that they divide.

    One without such a dimension stays on all of them. One that was given the value of a tensor on the device
    has that tensor's sharding, which is mostly none, and is split anew.
    """
    lengths = [n if n % _devices == 0 else 0 for n in tensor.shape]
    if not any(lengths) or is_split(tensor):
        return
    if torch_xla._XLAC._get_xla_sharding_spec(tensor) == _ON_ALL:
        _sharding().clear_sharding(tensor)
    longest = lengths.index(max(lengths))
    split = ["data" if dim == longest else None for dim in range(tensor.dim())]
    _sharding().mark_sharding(tensor, _mesh(_devices), tuple(split))


def is_split(tensor: torch.Tensor) -> bool:
    """True if it is on the devices in some way that was asked for."""
    return torch_xla._XLAC._get_xla_sharding_spec(tensor) not in ("", _ON_ALL)


def split_activation(tensor: torch.Tensor) -> None:
    """Tell the compiler that a tensor is split along the batch. It then moves weights to the data."""
    if tensor.device.type == "xla" and tensor.dim() and tensor.shape[0] % _devices == 0:
        split = ("data", *[None] * (tensor.dim() - 1))
        _sharding().mark_sharding(tensor, _mesh(_devices), split)


def _sharding() -> Any:
    return importlib.import_module("torch_xla.distributed.spmd")


@functools.cache
def _mesh(devices: int) -> Any:
    return _sharding().Mesh(list(range(devices)), (devices,), ("data",))
