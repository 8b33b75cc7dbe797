"""FSDP of accelerate and of transformers' Trainer on XLA: one process drives all devices, over which parameters are split.

Tried with accelerate 1.15, transformers 5.23 and torch_xla 2.9.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import importlib
import inspect
import json
import os
import sys
from collections.abc import Callable, Iterator
from itertools import tee, zip_longest
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import IterableDataset

from ..graphs import checkpoint
from ..replicas.spmd import batches_at_once, use_spmd

_PLUGIN = "_xla_migrate_fsdp"


def patch() -> None:
    """Let an ``Accelerator`` that is given an FSDP plugin shard over all devices of this process.

    By itself accelerate ignores the plugin on XLA, and the Trainer's own FSDP for XLA raises: it wraps the model, and
    makes a learning rate schedule for an optimizer that it leaves to ``Accelerator.prepare``, which it does not call for
    a model that is wrapped (transformers 5.23). Here the plugin goes no further than to the ``Accelerator``: to all
    others the model is whole, on one device, and takes the batch of all.
    """
    accelerator: Any = importlib.import_module("accelerate.accelerator").Accelerator
    accelerator.__init__ = _taking_the_plugin(accelerator.__init__)
    accelerator.prepare_model = _sharding(accelerator.prepare_model)
    accelerator.prepare_optimizer = _loading_shards(accelerator.prepare_optimizer)
    scheduler: Any = importlib.import_module("accelerate.scheduler").AcceleratedScheduler
    scheduler.step = _counting_devices(scheduler.step)
    plugin: Any = importlib.import_module("accelerate.utils").FullyShardedDataParallelPlugin
    plugin.__post_init__ = _without_broadcast(plugin.__post_init__)
    if "transformers" in sys.modules:
        _patch_trainer()


def _taking_the_plugin(init: Any) -> Any:
    @functools.wraps(init)
    def taking(self: Any, *args: Any, fsdp_plugin: Any = None, **kwargs: Any) -> None:
        if fsdp_plugin is not None:
            _check(fsdp_plugin)
            _begin()
            self.__dict__[_PLUGIN] = fsdp_plugin
            # With it `clip_grad_norm_` asks the model, as one that torch's FSDP has wrapped.
            os.environ["ACCELERATE_USE_FSDP"] = "false"
            self.gather_for_metrics = _gathering(self, self.gather_for_metrics)
        init(self, *args, **kwargs)

    return taking


def _gathering(accelerator: Any, gather: Any) -> Any:
    """``gather_for_metrics`` of what is the same in each process: the Trainer's loss of a batch, repeated for one's share."""

    @functools.wraps(gather)
    def gathered(data: Any, *args: Any, **kwargs: Any) -> Any:
        loader = accelerator.gradient_state.active_dataloader
        sized = getattr(getattr(loader, "batch_sampler", None), "batch_size", None) is not None
        # The last batch is filled up, so that no results of samples are as few.
        if sized and accelerator.even_batches and isinstance(data, torch.Tensor) and data.dim():
            if len(data) * batches_at_once() == loader.total_batch_size:
                data = torch.cat([data] * batches_at_once())
        return gather(data, *args, **kwargs)

    return gathered


def _check(plugin: Any) -> None:
    offload = plugin.cpu_offload
    asked = ("sharding_strategy", "reshard_after_forward")
    strategies = {str(getattr(plugin, name, None)) for name in asked}
    without = {
        # FSDP1's says whether; of FSDP2's there is one for each.
        "cpu_offload": getattr(offload, "offload_params", "CPU" in type(offload).__name__),
        "a hybrid strategy": any("HYBRID" in strategy for strategy in strategies),
        "ignored_modules": plugin.ignored_modules,
        "activation_checkpointing_offload": getattr(
            plugin, "activation_checkpointing_offload", False
        ),
        'mixed_precision_policy (give the Accelerator `mixed_precision="bf16"`)': getattr(
            plugin, "mixed_precision_policy", None
        ),
    }
    for what, is_asked in without.items():
        if is_asked:
            raise NotImplementedError(f"FSDP with {what} has no counterpart on XLA: remove it")


def _begin(*, batch_per_device: bool = True) -> None:
    """Switch SPMD on, unless the script has: then it has said as well whose batches its loaders have."""
    from ..torch_xla.modules import xr

    if not xr.is_spmd():
        use_spmd(batch_per_device=batch_per_device)
    elif batches_at_once() == 1:
        use_spmd()  # also where torch_xla's own function was called


def _sharding(prepare: Any) -> Any:
    @functools.wraps(prepare)
    def prepared(self: Any, model: Any, *args: Any, **kwargs: Any) -> Any:
        found = prepare(self, model, *args, **kwargs)
        plugin = self.__dict__.get(_PLUGIN)
        if plugin is not None and _PLUGIN not in found.__dict__:
            found.__dict__[_PLUGIN] = True
            _shard(found, plugin)
        return found

    return prepared


def _shard(model: Any, plugin: Any) -> None:
    from ..torch_xla import fully_sharded

    plugin.set_auto_wrap_policy(model)
    policy = plugin.auto_wrap_policy
    fully_sharded.shard_in_place(
        model, policy, split=not str(plugin.sharding_strategy).endswith("NO_SHARD")
    )
    if plugin.activation_checkpointing:
        # In place: torch's wrapper would give the parameters other names.
        for part in fully_sharded.chosen(model, policy):
            part.forward = functools.partial(checkpoint, part.forward)


def _loading_shards(prepare: Any) -> Any:
    """States of a checkpoint are split before they are sent, so that no device holds all of them."""

    @functools.wraps(prepare)
    def prepared(self: Any, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        found = prepare(self, optimizer, *args, **kwargs)
        if _PLUGIN in self.__dict__:
            found.optimizer.register_load_state_dict_post_hook(_split_states)
        return found

    return prepared


def _split_states(optimizer: torch.optim.Optimizer) -> None:
    from ..torch_xla import spmd

    for parameter, states in optimizer.state.items():
        for value in states.values():
            if isinstance(value, torch.Tensor) and value.shape == parameter.shape:
                if value.device.type == "xla" and spmd.is_split(parameter):
                    spmd.shard(value)


def _counting_devices(step: Any) -> Any:
    """A schedule is one of batches, of which accelerate takes as many in a step as there are processes."""

    @functools.wraps(step)
    def stepped(*args: Any, **kwargs: Any) -> None:
        states = importlib.import_module("accelerate.state").PartialState._shared_state
        processes = states.get("num_processes", 1)
        states["num_processes"] = processes * batches_at_once()
        try:
            step(*args, **kwargs)
        finally:
            states["num_processes"] = processes

    return stepped


def _without_broadcast(init: Any) -> Any:
    """One process has the weights of all, and needs no CUDA device to send them from."""

    @functools.wraps(init)
    def initialized(self: Any) -> None:
        self.sync_module_states = self.cpu_ram_efficient_loading = False
        init(self)

    return initialized


def whole_steps(prepare: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap ``prepare_data_loader``: a batch holds the samples that accelerate's processes take together."""
    signature = inspect.signature(prepare)

    @functools.wraps(prepare)
    def prepared(*args: Any, **kwargs: Any) -> Any:
        if batches_at_once() == 1:
            return prepare(*args, **kwargs)
        asked = signature.bind(*args, **kwargs).arguments
        loader = asked["dataloader"]
        if isinstance(loader.dataset, IterableDataset):
            asked["dataloader"] = _whole_stream(loader, asked.get("split_batches", False))
            return prepare(**asked)
        found = prepare(**{**asked, "num_processes": batches_at_once(), "process_index": 0})
        sampler = found.batch_sampler
        sampler.__class__ = _whole(type(sampler))
        return found

    return prepared


def _whole_stream(loader: Any, splits: bool) -> Any:
    """Return a loader whose batches cover all devices; accelerate fills up the last one."""
    module: Any = importlib.import_module("accelerate.data_loader")
    size = loader.batch_size * (1 if splits else batches_at_once())
    options = {
        name: getattr(loader, name)
        for name in module._PYTORCH_DATALOADER_KWARGS
        if hasattr(loader, name) and name not in ("shuffle", "sampler", "batch_sampler")
    }
    dataset = module.IterableDatasetShard(loader.dataset, size, loader.drop_last)
    return type(loader)(dataset, **{**options, "batch_size": size})


def _whole(of_one: Any) -> Any:
    """``BatchSamplerShard`` of accelerate, except with the batches of all processes in one."""

    class WholeSteps(of_one):  # type: ignore[misc]
        def __iter__(self) -> Iterator[list[int]]:
            shards = []
            # Read once: a random sampler has another order each time.
            for index, batches in enumerate(tee(self.batch_sampler, self.num_processes)):
                shard = copy.copy(self)
                shard.__class__ = of_one
                shard.process_index, shard.batch_sampler = index, _Batches(self, batches)
                shards.append(iter(shard))
            for parts in zip_longest(*shards, fillvalue=()):
                yield [sample for part in parts for sample in part]

    return WholeSteps


class _Batches:
    """One process's share of a batch sampler; each batch is a new list, since accelerate extends the last."""

    def __init__(self, sampler: Any, batches: Iterator[Any]) -> None:
        self.batch_size, self._batches = sampler.batch_size, batches

    def __iter__(self) -> Iterator[list[int]]:
        return map(list, self._batches)


def _patch_trainer() -> None:
    with contextlib.suppress(ImportError):  # transformers without what its Trainer needs
        arguments: Any = importlib.import_module("transformers.training_args").TrainingArguments
        trainer: Any = importlib.import_module("transformers.trainer").Trainer
        # Before 5 the plugin was made of environment variables: there FSDP raises as it did.
        if hasattr(arguments, "_process_fsdp_args"):
            arguments.__post_init__ = _beginning(arguments.__post_init__)
            total, create = (
                trainer.get_total_train_batch_size,
                trainer.create_accelerator_and_postprocess,
            )
            trainer.get_total_train_batch_size = _of_all_devices(total)
            trainer.create_accelerator_and_postprocess = _on_one_device(create)


def _beginning(init: Any) -> Any:
    """Wrap an `__init__` whose remaining code needs the device."""

    @functools.wraps(init)
    def initialized(self: Any) -> None:
        if self.fsdp:
            _begin(batch_per_device=not _is_for_tpus(self.fsdp_config))
        init(self)

    return initialized


def _is_for_tpus(config: Any) -> bool:
    """True for ``{"xla": True}``: transformers' own FSDP for XLA, for which a batch is that of all devices."""
    if isinstance(config, str):
        config = json.loads(Path(config).read_text(encoding="utf-8"))
    return bool((config or {}).get("xla"))


def _of_all_devices(total: Any) -> Any:
    """Return the number of samples of a step, for logs and timing."""

    @functools.wraps(total)
    def counted(self: Any, args: Any) -> int:
        devices = 1 if args.accelerator_config.split_batches else batches_at_once()
        return int(total(self, args)) * devices

    return counted


def _on_one_device(create: Any) -> Any:
    """Creates the ``Accelerator``, which takes the plugin; from then on FSDP is nothing that the Trainer knows of."""

    @functools.wraps(create)
    def created(self: Any) -> None:
        arguments = self.args
        if arguments.fsdp and arguments.fsdp_plugin_args is None:  # none is made for {"xla": True}
            config = arguments.fsdp_config
            config["xla"] = False
            if config.get("xla_fsdp_grad_ckpt"):
                config["xla_fsdp_grad_ckpt"] = False
                config["activation_checkpointing"] = True
            arguments.fsdp_plugin_args = arguments._process_fsdp_args()
        arguments.fsdp = None
        create(self)

    return created
