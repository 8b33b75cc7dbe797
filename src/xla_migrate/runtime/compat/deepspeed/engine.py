"""The engine that `deepspeed.initialize` returns: forward, backward, and an update after so many batches."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import torch
from torch import nn

from ... import (
    data_parallel_size,
    destroy_process_group,
    load,
    local_rank,
    mark_step,
    optimizer_step,
    rank,
    reduce_gradients,
    save,
    world_size,
    xla_device,
)
from ..._backend import backend, uses_torch_xla
from ..deepspeed_optimizers import OWN
from . import data
from .config import Config, optimizer_of, read
from .masters import Masters
from .schedules import OF_TORCH, SCHEDULES

_FILE = "mp_rank_00_model_states.pt"


def initialize(
    args: Any = None,
    model: nn.Module | None = None,
    optimizer: Any = None,
    model_parameters: Any = None,
    training_data: Any = None,
    lr_scheduler: Any = None,
    distributed_port: int = 0,
    mpu: Any = None,
    dist_init_required: bool | None = None,
    collate_fn: Any = None,
    config: Any = None,
    mesh_param: Any = None,
    config_params: Any = None,
) -> tuple[DeepSpeedEngine, Any, Any, Any]:
    """``deepspeed.initialize`` for data parallelism and ZeRO: the same updates, with the runtime's averages.

    States are whole on each device, whatever the stage; under ``xla.use_spmd(batch_per_device=True)`` parameters,
    gradients and states are sharded over the devices, as ZeRO 3 does, from stage 1 on. float16 is bfloat16.

    Args:
        args: Its ``deepspeed_config`` is the configuration, unless `config` is given. A ``local_rank`` is set.
        model: The model, on any device.
        optimizer: In place of the configuration's, or a function that makes one of the parameters.
        model_parameters: What is trained; all of the model by default.
        training_data: A dataset, for the loader that is returned. It shuffles, in the same order in each epoch.
        lr_scheduler: In place of the configuration's, or a function that makes one of the optimizer.
        distributed_port: Accepted, without effect.
        mpu: Must be None: there is no model parallelism.
        dist_init_required: Accepted; the process group is started if there is none.
        collate_fn: Of loaders that the engine makes.
        config: A dictionary, or the path of a JSON file.
        mesh_param: Must be None.
        config_params: As `config`.

    Returns:
        The engine, the optimizer, the loader and the schedule; None for what there is not.

    Raises:
        NotImplementedError: the configuration requests a feature that has no counterpart.
        ValueError: its batch sizes do not fit, or there is none.

    Example:
        >>> engine, *_ = deepspeed.initialize(model=model, config={"train_batch_size": 8, "optimizer": {"type": "SGD",
        ...     "params": {"lr": 0.1}}})
        >>> engine.backward(engine(x).sum())
        >>> engine.step()
    """
    if mpu is not None or mesh_param is not None:
        raise NotImplementedError(
            "deepspeed.initialize(mpu=...): shard with xla.use_spmd() in its place"
        )
    if model is None:
        raise ValueError("deepspeed.initialize needs a model")
    from . import init_distributed

    init_distributed()
    given = config if config is not None else config_params
    if given is None:
        given = getattr(args, "deepspeed_config", None)
    engine = DeepSpeedEngine(
        model,
        read(given, data_parallel_size()),
        model_parameters,
        optimizer,
        lr_scheduler,
    )
    if hasattr(args, "local_rank"):
        args.local_rank = engine.local_rank
    engine.collate_fn = collate_fn
    if training_data is not None:
        engine.training_dataloader = engine.deepspeed_io(training_data)
    return engine, engine.optimizer, engine.training_dataloader, engine.lr_scheduler


class ThroughputTimer:
    """DeepSpeed's timer of samples per second, which scripts tell of epochs. This one prints nothing."""

    def start(self) -> None:
        """Before a batch: nothing."""

    def stop(self, *_: Any, **__: Any) -> None:
        """After a batch: nothing."""

    def update_epoch_count(self) -> None:
        """After an epoch: nothing."""


class DeepSpeedEngine(nn.Module):
    """The engine that ``initialize`` returns. Other attributes are the model's."""

    def __init__(
        self, model: nn.Module, config: Config, parameters: Any, optimizer: Any, scheduler: Any
    ) -> None:
        super().__init__()
        self._config = config
        is_sharded = config.stage > 0 and _drives_all_devices()
        self.module = _sharded(model) if is_sharded else model.to(xla_device())
        if world_size() > 1:
            backend().broadcast([*model.parameters(), *model.buffers()], 0)
        self.optimizer = _optimizer(optimizer, parameters, model, config)
        self._masters: Masters | None = None
        if config.half:
            groups = [] if self.optimizer is None else self.optimizer.param_groups
            self._masters = Masters(model, groups, is_sharded)
        self.lr_scheduler = _scheduler(scheduler, self.optimizer, config)
        self.training_dataloader: Any = None
        self.collate_fn: Callable[..., Any] | None = None
        self.micro_steps = self.global_steps = self.global_samples = self.skipped_steps = 0
        self.device, self.local_rank = xla_device(), local_rank()
        self.global_rank, self.world_size = rank(), world_size()
        self.tput_timer = ThroughputTimer()
        self._boundary: bool | None = None
        self._applied = False
        self._marks_at_step: int | None = None
        self._norm: torch.Tensor | None = None

    # The step.

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The model's. Before the first one after ``step``, the graph ends, unless a loader or the script has marked."""
        if self._marks_at_step == _marks():
            mark_step()
        self._marks_at_step = None
        return self.module(*args, **kwargs)

    def backward(
        self, loss: torch.Tensor, retain_graph: bool = False, scale_wrt_gas: bool = True, **_: Any
    ) -> torch.Tensor:
        """Gradients of the loss, as this batch's share of an update.

        Returns:
            The share.
        """
        share = loss / self.gradient_accumulation_steps() if scale_wrt_gas else loss
        share.backward(retain_graph=retain_graph)  # type: ignore[no-untyped-call]
        if self._masters is not None:
            self._masters.collect()
        return share

    def step(self, lr_kwargs: dict[str, Any] | None = None) -> None:
        """Behind each batch: update after so many."""
        self._applied = self.is_gradient_accumulation_boundary()
        if self._applied:
            self._update(lr_kwargs or {})
        self.micro_steps += 1
        self._marks_at_step = _marks()

    def _update(self, lr_kwargs: dict[str, Any]) -> None:
        reduce_gradients(self.optimizer)
        parameters = [p for group in self.optimizer.param_groups for p in group["params"]]
        limit = self._config.clipping
        if limit > 0 or self._config.stage > 0 or self._masters is not None:
            most = limit if limit > 0 else float("inf")
            self._norm = nn.utils.clip_grad_norm_(parameters, most)
        optimizer_step(self.optimizer)
        if self._masters is not None:
            self._masters.give_back()
        self.optimizer.zero_grad(set_to_none=True)
        self.module.zero_grad(set_to_none=True)
        if self.lr_scheduler is not None:
            self.lr_scheduler.step(**lr_kwargs)
        self.global_steps += 1
        self.global_samples += self.train_batch_size()

    def is_gradient_accumulation_boundary(self) -> bool:
        """True if the next ``step`` updates."""
        if self._boundary is not None:
            return self._boundary
        return (self.micro_steps + 1) % self.gradient_accumulation_steps() == 0

    def set_gradient_accumulation_boundary(self, is_boundary: bool) -> None:
        """Set if the next ``step`` updates. From now on, the script decides it."""
        self._boundary = is_boundary

    @contextlib.contextmanager
    def no_sync(self) -> Iterator[None]:
        """Nothing: gradients are averaged at the update only."""
        yield

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Without gradients."""
        self.module.zero_grad(set_to_none=set_to_none)
        if self.optimizer is not None:
            self.optimizer.zero_grad(set_to_none=set_to_none)

    # Queries about the configuration.

    def gradient_accumulation_steps(self) -> int:
        """Batches for one update."""
        return self._config.accumulation

    def set_gradient_accumulation_steps(self, steps: int) -> None:
        """Change how many batches make one update."""
        self._config = replace(self._config, accumulation=steps)

    def train_micro_batch_size_per_gpu(self) -> int:
        """Samples of one replica's batch."""
        return self._config.micro_batch

    def train_batch_size(self) -> int:
        """Samples of one update, over all replicas."""
        return self._config.micro_batch * self._config.accumulation * data_parallel_size()

    def gradient_clipping(self) -> float:
        """The largest norm of all gradients; 0 for any."""
        return self._config.clipping

    def zero_optimization(self) -> bool:
        """True from ZeRO's stage 1 on."""
        return self._config.stage > 0

    def zero_optimization_stage(self) -> int:
        """ZeRO's stage, as configured."""
        return self._config.stage

    def fp16_enabled(self) -> bool:
        """False: float16 is bfloat16."""
        return False

    def bfloat16_enabled(self) -> bool:
        """True if it computes in bfloat16."""
        return self._config.half

    def get_global_grad_norm(self) -> torch.Tensor | None:
        """The norm of all gradients before the last update, on the device."""
        return self._norm

    def get_lr(self) -> list[float]:
        """The rate of each parameter group."""
        return [group["lr"] for group in self.optimizer.param_groups]

    def was_step_applied(self) -> bool:
        """True if the last ``step`` updated."""
        return self._applied

    def destroy(self) -> None:
        """End the process group."""
        destroy_process_group()

    # Data and checkpoints.

    def deepspeed_io(
        self,
        dataset: Any,
        batch_size: int | None = None,
        route: str = "train",
        pin_memory: bool = True,
        data_sampler: Any = None,
        collate_fn: Callable[..., Any] | None = None,
        num_local_io_workers: int | None = None,
    ) -> Any:
        """A loader of this replica's part of `dataset`, by default in batches of the configuration's size.

        It shuffles if `route` is "train". `pin_memory` has no effect.
        """
        return data.loader(
            dataset,
            batch_size or self._config.micro_batch,
            route=route,
            sampler=data_sampler,
            collate_fn=collate_fn or self.collate_fn,
            workers=num_local_io_workers,
            drop_last=self._config.drop_last,
        )

    def save_checkpoint(
        self,
        save_dir: str,
        tag: Any = None,
        client_state: dict[str, Any] | None = None,
        save_latest: bool = True,
        **_: Any,
    ) -> bool:
        """Model, optimizer, schedule and `client_state`, in ``save_dir/tag``; all replicas call it."""
        tag = str(tag if tag is not None else f"global_step{self.global_steps}")
        folder = os.path.join(save_dir, tag)
        os.makedirs(folder, exist_ok=True)
        state = {
            **(client_state or {}),
            "module": self.module.state_dict(),
            "optimizer": None if self.optimizer is None else self.optimizer.state_dict(),
            "masters": None if self._masters is None else self._masters.state(),
            "lr_scheduler": None if self.lr_scheduler is None else self.lr_scheduler.state_dict(),
            **{name: getattr(self, name) for name in _COUNTERS},
        }
        save(state, os.path.join(folder, _FILE))
        if save_latest and rank() == 0:
            with open(os.path.join(save_dir, "latest"), "w") as file:
                file.write(tag)
        return True

    def load_checkpoint(
        self,
        load_dir: str,
        tag: Any = None,
        load_module_strict: bool = True,
        load_optimizer_states: bool = True,
        load_lr_scheduler_states: bool = True,
        load_module_only: bool = False,
        **_: Any,
    ) -> tuple[str | None, dict[str, Any] | None]:
        """Load what ``save_checkpoint`` wrote, or the model of DeepSpeed's own checkpoints.

        Returns:
            The path, and the client's state; None and None if there is no ``latest``.

        Raises:
            ValueError: the optimizer's states are in files of DeepSpeed's shards.
        """
        if tag is None:
            latest = os.path.join(load_dir, "latest")
            if not os.path.isfile(latest):
                return None, None
            with open(latest) as file:
                tag = file.read().strip()
        path = os.path.join(load_dir, str(tag), _FILE)
        state = load(path, map_location="cpu", weights_only=False)
        self.module.load_state_dict(state["module"], strict=load_module_strict)
        if self._masters is not None:
            self._masters.take()
        if not load_module_only:
            self._load_rest(state, path, load_optimizer_states, load_lr_scheduler_states)
        return path, {k: v for k, v in state.items() if k not in _OWN}

    def _load_rest(self, state: dict[str, Any], path: str, optimizer: bool, schedule: bool) -> None:
        if optimizer and self.optimizer is not None:
            if not state.get("optimizer") or ("masters" not in state and self._masters is not None):
                raise ValueError(
                    f"{path}: the optimizer's states are DeepSpeed's shards: load_optimizer_states=False starts without them"
                )
            self.optimizer.load_state_dict(state["optimizer"])
            if self._masters is not None:
                self._masters.load(state["masters"])
        if schedule and self.lr_scheduler is not None and state.get("lr_scheduler"):
            self.lr_scheduler.load_state_dict(state["lr_scheduler"])
        for name in _COUNTERS:
            setattr(self, name, state.get(name, getattr(self, name)))

    def save_16bit_model(
        self, save_dir: str, save_filename: str = "pytorch_model.bin", **_: Any
    ) -> bool:
        """The model's weights."""
        os.makedirs(save_dir, exist_ok=True)
        save(self.module.state_dict(), os.path.join(save_dir, save_filename))
        return True

    def module_state_dict(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """The model's weights, by its own names."""
        return self.module.state_dict()

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            if name == "module":
                raise
            return getattr(self.module, name)


_COUNTERS = ("global_steps", "global_samples", "micro_steps", "skipped_steps")
_OWN = frozenset({"module", "optimizer", "masters", "lr_scheduler", *_COUNTERS})


def _marks() -> int:
    """Return the number of step marks so far; 0 on eager backends."""
    if not uses_torch_xla():
        return 0
    from ...torch_xla import marks

    return marks.count


def _drives_all_devices() -> bool:
    """True under ``use_spmd()``, where torch_xla is the backend."""
    if not uses_torch_xla():
        return False
    from ...torch_xla.modules import xr

    return bool(xr.is_spmd())


def _sharded(model: nn.Module) -> nn.Module:
    from ... import (
        fully_shard,  # which is the backend's, and that is not chosen when this is imported
    )

    return fully_shard(model)


def _optimizer(given: Any, parameters: Any, model: nn.Module, config: Config) -> Any:
    parameters = list(parameters) if parameters is not None else list(model.parameters())
    if callable(given) and not hasattr(given, "param_groups"):
        return given(parameters)
    if given is not None or config.optimizer is None:
        return given
    name, arguments = optimizer_of(*config.optimizer)
    kind = OWN[name] if name in OWN else getattr(torch.optim, name)
    return kind(parameters, **arguments)


def _scheduler(given: Any, optimizer: Any, config: Config) -> Any:
    if callable(given) and not hasattr(given, "step"):
        return given(optimizer)
    if given is not None or config.scheduler is None or optimizer is None:
        return given
    name, arguments = config.scheduler
    if name in SCHEDULES:
        return SCHEDULES[name](optimizer, **arguments)
    if name not in OF_TORCH:
        raise NotImplementedError(
            f"deepspeed's schedule {name}: create a PyTorch scheduler, and pass it as "
            "lr_scheduler=..."
        )
    return getattr(torch.optim.lr_scheduler, name)(optimizer, **arguments)
