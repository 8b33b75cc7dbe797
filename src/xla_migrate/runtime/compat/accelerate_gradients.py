"""Which gradients accelerate reduces on XLA, and when: as DistributedDataParallel does on CUDA.

On XLA accelerate wraps no model: its optimizers reduce gradients when they step, and ``clip_grad_norm_`` before them, but
only for one optimizer, so the others clip and step with gradients of their replica alone. ``clip_grad_value_`` reduces none,
nor do optimizers that were not prepared. LocalSGD, for which the wrapper leaves gradients alone, raises. Nor are weights those
of the first process from the start.
Tried with accelerate 1.15 and torch_xla 2.9.
"""

from __future__ import annotations

import functools
import importlib
import inspect
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from .._backend import backend
from .accelerate_buffers import share_buffers

_local: list[Any] = []  # the models that train by themselves, each as often as it was entered


def patch_gradients() -> None:
    """Mend it. Classes are changed in place: scripts have imported them."""
    state: Any = importlib.import_module("accelerate.state")
    if not hasattr(state.GradientState, "is_xla_gradients_synced"):
        return  # this version of accelerate has no flag for gradients that are already reduced
    optimizer: Any = importlib.import_module("accelerate.optimizer").AcceleratedOptimizer
    optimizer.step = _after_reducing(optimizer.step, lambda stepping: [stepping])
    accelerator: Any = importlib.import_module("accelerate.accelerator").Accelerator
    for name in ("clip_grad_norm_", "clip_grad_value_"):
        clip = getattr(accelerator, name)
        setattr(accelerator, name, _after_reducing(clip, lambda clipping: clipping._optimizers))
    accelerator.prepare_model = _of_the_first(accelerator.prepare_model)
    accelerator.backward = _then_the_rest(accelerator.backward)
    local: Any = importlib.import_module("accelerate.local_sgd").LocalSGD
    local.__init__ = _init(local.__init__)
    local.__enter__ = _enter(local.__enter__)
    local._sync_and_avg_model_params = _average(local._sync_and_avg_model_params)


def _of_the_first(prepare: Any) -> Any:
    """Wrap ``prepare_model`` so that all processes start with the same weights, even if unseeded."""
    signature = inspect.signature(prepare)

    @functools.wraps(prepare)
    def prepared(self: Any, *args: Any, **kwargs: Any) -> Any:
        asked = signature.bind(self, *args, **kwargs).arguments
        known = getattr(asked["model"], "_is_accelerate_prepared", False)
        model = prepare(self, *args, **kwargs)
        if known or asked.get("evaluation_mode") or not _is_on_xla(self) or _shards():
            return model
        if self.num_processes > 1 and any(p.requires_grad for p in model.parameters()):
            backend().mark_step()  # what the first process has computed alone is in no shared graph
            _send([t.data for t in (*model.parameters(), *model.buffers())])
            backend().mark_step()
            if any(True for _ in model.buffers()) and _broadcasts_buffers(self):
                share_buffers(model, self, _send)
        return model

    return prepared


@torch.no_grad()
def _send(tensors: list[torch.Tensor]) -> None:
    """Broadcast from the first process: sum its tensors and zeros, since all must run the same graph."""
    from ..torch_xla.modules import xm, xr

    sends = torch.tensor(xr.global_ordinal() == 0).to(backend().device())
    there = [t for t in tensors if t.device.type == "xla"]
    summed = [torch.where(sends, t, torch.zeros_like(t)) for t in there]
    summed = [t.to(torch.uint8) if t.dtype == torch.bool else t for t in summed]
    xm.all_reduce(xm.REDUCE_SUM, summed)
    for tensor, value in zip(there, summed, strict=True):
        tensor.copy_(value)


def _broadcasts_buffers(accelerator: Any) -> bool:
    """Unless ``DistributedDataParallelKwargs(broadcast_buffers=False)`` was given."""
    handler = getattr(accelerator, "ddp_handler", None)
    return handler is None or bool(handler.broadcast_buffers)


def _is_on_xla(state: Any) -> bool:
    """Return True for an Accelerator, or its state, on XLA."""
    return str(state.distributed_type.value) == "XLA"


def _init(init: Any) -> Any:
    @functools.wraps(init)
    def made(
        self: Any, accelerator: Any, model: Any, local_sgd_steps: int, enabled: bool = True
    ) -> None:
        if not _is_on_xla(accelerator) or _shards():
            init(self, accelerator, model, local_sgd_steps, enabled)  # which refuses FSDP
            return
        self.enabled = enabled and accelerator.num_processes > 1
        self.num_steps = 0
        if self.enabled:
            self.accelerator = accelerator
            self.model = model
            self.local_sgd_steps = local_sgd_steps
        elif enabled and _is_one_model_of_many_devices():
            raise NotImplementedError(
                "LocalSGD trains a separate model on each device, but SPMD has one model: start a process per device"
            )

    return made


def _shards() -> bool:
    flag: Any = importlib.import_module("accelerate.utils").parse_flag_from_env
    return bool(flag("ACCELERATE_USE_FSDP", default=False))


def _is_one_model_of_many_devices() -> bool:
    from ..torch_xla.modules import xr

    return bool(xr.is_spmd()) and xr.global_runtime_device_count() > 1


def _enter(enter: Any) -> Any:
    @functools.wraps(enter)
    def entered(self: Any) -> Any:
        if not self.enabled or not _is_on_xla(self.accelerator):
            return enter(self)
        self.model_sync_obj = _trains_by_itself(self.model)  # left where accelerate leaves DDP's
        self.model_sync_obj.__enter__()
        return self

    return entered


@contextmanager
def _trains_by_itself(model: Any) -> Iterator[None]:
    _local.append(model)
    try:
        yield
    finally:
        _local[:] = _without_last(_local, model)


def _without_last(models: list[Any], model: Any) -> list[Any]:
    last = max(i for i, other in enumerate(models) if other is model)
    return models[:last] + models[last + 1 :]


def _average(average: Any) -> Any:
    @functools.wraps(average)
    def averaged(self: Any) -> None:
        if not _is_on_xla(self.accelerator):
            average(self)
            return
        # In a separate graph: other pending operations may differ between replicas.
        backend().mark_step()
        _total([p.data for p in self.model.parameters()])
        backend().mark_step()

    return averaged


def _after_reducing(function: Any, of: Callable[[Any], Iterable[Any]]) -> Any:
    """Wrap ``function`` to reduce gradients of all optimizers first, except for LocalSGD models."""

    @functools.wraps(function)
    def called(self: Any, *args: Any, **kwargs: Any) -> Any:
        _reduce(of(self))
        return function(self, *args, **kwargs)

    return called


def _then_the_rest(backward: Any) -> Any:
    """Wrap ``backward`` to average gradients of prepared models that no prepared optimizer reduces."""

    @functools.wraps(backward)
    def called(self: Any, *args: Any, **kwargs: Any) -> Any:
        found = backward(self, *args, **kwargs)
        if self.sync_gradients and self.num_processes > 1 and _is_on_xla(self) and not _shards():
            groups = (group for optimizer in self._optimizers for group in optimizer.param_groups)
            others = {id(p) for group in groups for p in group["params"]}
            others |= {id(p) for model in _local for p in model.parameters()}
            rest = {id(p): p for model in self._models for p in model.parameters()}
            _total([p.grad.data for k, p in rest.items() if p.grad is not None and k not in others])
        return found

    return called


def _reduce(optimizers: Iterable[Any]) -> None:
    """Reduce what has to be, and have accelerate take all of it as reduced."""
    kept = {id(p) for model in _local for p in model.parameters()}
    for optimizer in optimizers:
        state = optimizer.gradient_state
        if not _is_on_xla(optimizer.accelerator_state) or state.is_xla_gradients_synced:
            continue
        parameters = (p for group in optimizer.param_groups for p in group["params"])
        _total([p.grad.data for p in parameters if p.grad is not None and id(p) not in kept])
    for optimizer in optimizers:  # after all: they share this
        optimizer.gradient_state.is_xla_gradients_synced = True


def _total(values: list[Any]) -> None:
    """The values become their mean over accelerate's processes, which are torch_xla's."""
    from ..torch_xla.modules import xm, xr

    if values:
        xm.all_reduce(xm.REDUCE_SUM, values, scale=1.0 / xr.world_size())
