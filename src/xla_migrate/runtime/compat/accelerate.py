"""Fixes of what accelerate does differently on XLA devices. Imports accelerate when called.

Tried with accelerate 1.15 and torch_xla 2.9.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.utils.checkpoint

from .._backend import uses_torch_xla
from ..deferred.reading import later
from ..deferred.waiting import queue
from ..graphs import checkpoint
from ..loading.loader import MpDeviceLoader
from ..processes import local_rank, world_size
from ..replicas.spmd import batches_at_once
from . import accelerate_sharding
from .accelerate_gradients import patch_gradients


def patch_accelerate() -> None:
    """Let accelerate, and transformers' Trainer, do on XLA what they do on CUDA.

    - A loader is read when the loop needs a batch. accelerate lets torch_xla read it ahead in a thread, and
      so learns of its end before the loop is there: gradient accumulation steps at other batches,
      ``gather_for_metrics`` keeps the samples that fill up the last batch, and an exception of the dataset ends
      the epoch silently (fact 1.82). Worker processes still read ahead.
    - A shuffled loader has the same order as on CUDA. accelerate gives the loader a separate generator.
    - An FSDP plugin shards, also one that the Trainer makes of its arguments (``fsdp``, ``fsdp_config``):
      parameters, gradients and the optimizer's state are split over all devices, which this one process
      drives. A step takes a batch for each device, as on CUDA. Start it once, with ``python``.
    - The first process of a host is known without ``LOCAL_RANK``. accelerate takes itself for local rank -1,
      and ``accelerator.print``, loggers and progress bars print nothing.
    - ``log`` does not wait for the device: trackers get values when they have come, in order, and all of them before
      ``end_training`` closes them.
    - ``LocalSGD``, which accelerate refuses, trains: each process steps by itself, and parameters are averaged at times.
    - Clipping sees gradients that are averaged over the processes, for every optimizer. An optimizer that was not
      prepared also steps with averaged gradients if its model was prepared.
    - Prepared models start with the weights of the first process, and keep its buffers, such as running statistics.
      Unseeded, each process would train its own.
    - Several processes on a CPU rehearse: they train together, through gloo. On a TPU host, processes that torch_xla
      does not know of, as torchrun starts them, are refused.
    - Models of transformers checkpoint activations with ``xla.checkpoint``, whoever switches it on: the command line, or
      trl, whose trainers do by default. Torch's own function raises (fact 1.101).

    Call it before you create the ``Accelerator``, and before the Trainer's arguments if they enable FSDP.
    It changes nothing if torch_xla is not the backend, and a second call does nothing.

    Example:
        >>> xla.patch_accelerate()
    """
    if not uses_torch_xla():
        return
    loaders: Any = importlib.import_module("accelerate.data_loader")
    state: Any = importlib.import_module("accelerate.state")
    wrapper = getattr(loaders, "MpDeviceLoaderWrapper", None)
    # Absent if accelerate does not use torch_xla (USE_TORCH_XLA=0).
    if wrapper is None or hasattr(wrapper.__iter__, "of_xla_migrate"):
        return
    from ..torch_xla import rehearsed_collectives

    if rehearsed_collectives.apply():
        _count_processes(state.PartialState._shared_state)
    else:
        state.PartialState.__init__ = _and_then(state.PartialState.__init__, _refuse_copies)
    wrapper.__iter__ = _iterator(loaders.synchronize_rng_states)
    prepare = _same_order(accelerate_sharding.whole_steps(loaders.prepare_data_loader))
    # Where it was imported from, and the one place in accelerate that calls it.
    loaders.prepare_data_loader = prepare
    importlib.import_module("accelerate.accelerator").__dict__["prepare_data_loader"] = prepare
    patch_gradients()
    _patch_checkpointing()
    accelerator: Any = importlib.import_module("accelerate.accelerator").Accelerator
    accelerator.log = _logged_in_order(accelerator.log)
    accelerator.end_training = _behind_what_waits(accelerator.end_training)
    state.PartialState.__init__ = _and_then(state.PartialState.__init__, _set_local_rank)
    _set_local_rank(state.PartialState._shared_state)
    accelerate_sharding.patch()


def _patch_checkpointing() -> None:
    if "transformers" not in sys.modules:
        return
    try:
        models: Any = importlib.import_module("transformers.modeling_utils")
    except ImportError:  # of something that transformers finds missing, and will tell of itself
        return
    if getattr(models, "checkpoint", None) is torch.utils.checkpoint.checkpoint:
        models.checkpoint = checkpoint


def _logged_in_order(log: Any) -> Any:
    """``log`` that does not wait for the device: made when what it is given has come, behind what was written before."""

    @functools.wraps(log)
    def logged(self: Any, *args: Any, **kwargs: Any) -> None:
        if queue.is_settling:
            log(self, *args, **kwargs)
        else:
            later(lambda args=args, kwargs=kwargs: log(self, *args, **kwargs))

    return logged


def _behind_what_waits(end: Any) -> Any:
    @functools.wraps(end)
    def ended(self: Any, *args: Any, **kwargs: Any) -> Any:
        queue.settle_all()
        return end(self, *args, **kwargs)

    return ended


def _iterator(synchronize: Callable[..., None]) -> Callable[[Any], Iterator[Any]]:
    """``__iter__`` of accelerate's loader, in the thread that asks."""

    def iterate(wrapper: Any) -> Iterator[Any]:
        if batches_at_once() > 1:
            wrapper._loader.of_all_devices = True
        elif wrapper._rng_types is not None:
            synchronize(wrapper._rng_types, wrapper._loader.synchronized_generator)
        return iter(MpDeviceLoader(wrapper._loader, wrapper.device, loader_prefetch_size=0))

    iterate.of_xla_migrate = True  # type: ignore[attr-defined]
    return iterate


def _same_order(prepare: Callable[..., Any]) -> Callable[..., Any]:
    """``prepare_data_loader`` that leaves the generators of a shuffled loader as it does on CUDA."""
    signature = inspect.signature(prepare)

    @functools.wraps(prepare)
    def prepared(*args: Any, **kwargs: Any) -> Any:
        asked = signature.bind(*args, **kwargs).arguments
        loader = asked["dataloader"]
        sampler: Any = getattr(loader, "sampler", None)
        before = getattr(loader, "generator", None), getattr(sampler, "generator", None)
        random = torch.get_rng_state()
        found = prepare(*args, **kwargs)
        given = getattr(sampler, "generator", None)
        if given is None or given is before[1] or asked.get("use_seedable_sampler"):
            return found
        loader.generator = before[0]
        inner = getattr(getattr(found, "_loader", None), "base_dataloader", None)
        if inner is not None:
            inner.generator = before[0]
        if world_size() * batches_at_once() == 1:  # several draw their seed here on CUDA, too
            sampler.generator = before[1]
            torch.set_rng_state(random)
        return found

    return prepared


def _and_then(init: Any, act: Callable[[dict[str, Any]], None]) -> Any:
    """``init``, behind which ``act`` is called with what the object has."""

    @functools.wraps(init)
    def initialized(self: Any, *args: Any, **kwargs: Any) -> None:
        init(self, *args, **kwargs)
        act(self.__dict__)

    return initialized


def _count_processes(state: dict[str, Any]) -> None:
    """Correct the number of processes if accelerate has counted already, such as for a Trainer's arguments."""
    if state.get("backend") == "xla":
        runtime: Any = importlib.import_module("torch_xla.runtime")
        state["num_processes"] = runtime.world_size()
        state["process_index"] = runtime.global_ordinal()
        state["local_process_index"] = runtime.local_ordinal()


def _refuse_copies(state: Any) -> None:
    """Raise if a launcher started several processes and torch_xla takes each of them for the only one.

    Each process would train a copy of the model by itself, and they would overwrite each other's checkpoints.
    """
    started = int(os.environ.get("WORLD_SIZE") or 1)
    if state.get("backend") != "xla" or started == 1 or state.get("num_processes") != _devices():
        return
    raise RuntimeError(
        f"{started} processes were started, but torch_xla knows one, so each would train a copy by itself: start the "
        "script with `python` for one device, or with `accelerate launch --tpu` or `xla.launch` for several"
    )


def _devices() -> int:
    """Return how many devices this process drives."""
    runtime: Any = importlib.import_module("torch_xla.runtime")
    return int(runtime.addressable_device_count())


def _set_local_rank(state: Any) -> None:
    """Set the local rank if accelerate found no ``LOCAL_RANK`` on XLA."""
    if state.get("backend") == "xla" and state.get("local_process_index", 0) < 0:
        state["local_process_index"] = local_rank()
