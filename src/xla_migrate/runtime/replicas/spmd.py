"""SPMD: one process drives all devices, and the compiler splits the work along the batch."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import torch
from torch.utils.data import DistributedSampler

from .._backend import backend, uses_torch_xla
from ..processes import world_size

# The variables that torchrun would set: scripts for several processes read them.
_ONE_REPLICA = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "LOCAL_WORLD_SIZE": "1"}

# Whether device loaders put one batch for each device together, and how many that makes.
_batches = 1


def use_spmd(*, batch_per_device: bool = False) -> int:
    """Drive all devices of this host from this process, in place of one process per device.

    Call it first, before any tensor is on the device. From then on ``MpDeviceLoader`` splits each
    batch over the devices along its first dimension, parameters are on all of them, and the
    compiler adds up the gradients. The script stays that of one replica: ``world_size()`` is 1, and
    ``DistributedDataParallel`` passes everything on. Batch norms see the whole batch.

    On eager devices a script for ``DistributedDataParallel`` or ``FullyShardedDataParallel`` goes on
    having one process for each, and ``use_spmd(batch_per_device=True)`` does nothing.

    Args:
        batch_per_device: What the loader's ``batch_size`` means. False: the batch of one step, as
            on a single device. True: each device's share, as in a script for
            ``DistributedDataParallel``: the device loader puts as many batches together as there
            are devices, so that steps, learning rate and schedule keep their meaning.

    Returns:
        How many devices there are: what ``world_size`` was in the script for DDP.

    Raises:
        RuntimeError: if several processes have been started on XLA; on eager devices for a
            script of one device.

    Example:
        >>> devices = xla.use_spmd(batch_per_device=True)  # doctest: +SKIP
    """
    global _batches
    if batch_per_device and not uses_torch_xla():
        return world_size()
    if world_size() > 1:
        raise RuntimeError(
            "use_spmd() is for one process that drives all devices: start the script with python, "
            "not with torchrun for each device"
        )
    count = backend().use_spmd()
    _batches = count if batch_per_device else 1
    if batch_per_device:
        for name, value in _ONE_REPLICA.items():
            os.environ.setdefault(name, value)
    return count


def data_parallel_size() -> int:
    """Return the number of the loader's batches in the batch of one step.

    That is ``world_size()`` if each device has a separate process, and the number of devices
    under ``use_spmd(batch_per_device=True)``: what learning rates, batch sizes and numbers of steps
    are multiplied or divided by. ``world_size()`` is what metrics that were summed over replicas
    are divided by; under SPMD it is 1.

    Returns:
        At least 1.

    Example:
        >>> lr = 0.1 * xla.data_parallel_size()
    """
    return world_size() * _batches


def batches_at_once() -> int:
    """Return the number of the loader's batches in one batch of the device loader."""
    return _batches


def length(loader: Any) -> int:
    """Return the number of batches that the device loader makes of ``loader``'s."""
    if _batches == 1:
        return len(loader)
    _deal_as_for_replicas(loader)
    whole, rest = divmod(len(loader), _batches)
    return whole + (rest > 0 and not _drops_last(loader))


def joined(loader: Any) -> Iterator[Any]:
    """One pass over ``loader``, with the batches of all devices as one, as DDP's replicas have them.

    One that says ``of_all_devices`` has such batches itself.
    """
    if getattr(loader, "of_all_devices", False):
        return iter(loader)
    _deal_as_for_replicas(loader)
    return put_together(iter(loader), _batches, drops_last=_drops_last(loader))


def _deal_as_for_replicas(loader: Any) -> None:
    """A ``DistributedSampler`` repeats or drops samples until each replica has as many.

    The one replica of SPMD does so for each device, so that the last batch and the number of
    batches are the same as with DDP.
    """
    sampler = getattr(loader, "sampler", None)
    if type(sampler) is not DistributedSampler or sampler.num_replicas != 1:
        return
    count = len(sampler.dataset)  # type: ignore[arg-type]
    each = count // _batches if sampler.drop_last else -(-count // _batches)
    sampler.num_samples = sampler.total_size = each * _batches


def _drops_last(loader: Any) -> bool:
    """True if a smaller last batch, and so what does not fill all devices, is left out."""
    at_end = getattr(loader, "batch_sampler", None)
    return any(getattr(one, "drop_last", False) is True for one in (loader, at_end))


def put_together(batches: Iterable[Any], count: int, *, drops_last: bool = False) -> Iterator[Any]:
    """``count`` batches at a time as one; at the end what is left, unless that is dropped."""
    waiting: list[Any] = []
    for batch in batches:
        waiting.append(batch)
        if len(waiting) == count:
            yield _joined(waiting)
            waiting = []
    if waiting and not drops_last:
        yield _joined(waiting)


def _joined(batches: list[Any]) -> Any:
    first = batches[0]
    if isinstance(first, torch.Tensor):
        return torch.cat(batches) if first.dim() else torch.stack(batches)
    if isinstance(first, Mapping):
        return type(first)({key: _joined([b[key] for b in batches]) for key in first})  # type: ignore[call-arg]
    if isinstance(first, tuple) and hasattr(first, "_fields"):
        return type(first)(*(map(_joined, map(list, zip(*batches)))))
    if isinstance(first, tuple):
        return tuple(map(_joined, map(list, zip(*batches))))
    if isinstance(first, list):
        of_tensors = any(isinstance(item, torch.Tensor | Mapping | list | tuple) for item in first)
        if of_tensors and all(len(batch) == len(first) for batch in batches):
            return [_joined(list(items)) for items in zip(*batches)]
        return [item for batch in batches for item in batch]
    if all(batch == first for batch in batches):
        return first
    raise TypeError(
        f"use_spmd(batch_per_device=True) cannot join batches of {type(first).__name__}: let the "
        "loader return the batch of all devices, and call use_spmd() without batch_per_device"
    )
