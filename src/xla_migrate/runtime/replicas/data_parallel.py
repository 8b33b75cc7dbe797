"""``DistributedDataParallel`` on XLA."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from .. import _gradients
from .._backend import backend
from ..loading.batches import move
from ..processes import world_size
from .reduction import Reduction

_TorchDDP = nn.parallel.DistributedDataParallel


class DistributedDataParallel(_TorchDDP):
    """``torch.nn.parallel.DistributedDataParallel`` for XLA replicas.

    Parameters and buffers are rank 0's from the start. Gradients are averaged at the end of each
    backward whose forward was not under ``no_sync``, so that clipping and whatever else stands
    between backward and step sees the averages; ``optimizer_step`` does not average them again.
    Tensors among the inputs that are on the CPU are moved to the module's device.

    Args:
        module: The model, on its device.
        device_ids: Accepted and without effect, as everything else of torch's that concerns CUDA
            devices and buckets.
        output_device: Accepted and without effect.
        dim: Accepted and without effect.
        broadcast_buffers: As for torch: before a training forward, buffers become rank 0's.
        process_group: As for torch.
        find_unused_parameters: As for torch: gradients may be missing, on some replicas or on all.
        static_graph: As for torch; unused parameters are found each time.
        init_sync: As for torch: begin with rank 0's parameters and buffers.
        ignored: Torch's other arguments.

    Raises:
        RuntimeError: for a module without parameters that require gradients, as torch does, and
            where replicas hold different parameters.
        ValueError: for ``mixed_precision``, ``delay_all_reduce_named_params`` and ``device_mesh``.

    Example:
        >>> model = xla.DistributedDataParallel(model)
        >>> model(x).sum().backward()
        >>> xla.optimizer_step(optimizer)
    """

    def __init__(
        self,
        module: nn.Module,
        device_ids: Any = None,
        output_device: Any = None,
        dim: int = 0,
        broadcast_buffers: bool = True,
        init_sync: bool = True,
        process_group: Any = None,
        find_unused_parameters: bool = False,
        static_graph: bool = False,
        **ignored: Any,
    ) -> None:
        nn.Module.__init__(self)  # Torch's own would gather XLA tensors with gloo (5.2).
        for name in ("mixed_precision", "delay_all_reduce_named_params", "device_mesh"):
            if ignored.get(name) is not None:
                raise ValueError(f"DistributedDataParallel({name}=...) is not available on XLA")
        self.module = module
        self._show_torchs_attributes(device_ids, output_device, dim, ignored)
        self.process_group = process_group
        self.broadcast_buffers = broadcast_buffers
        self.find_unused_parameters = find_unused_parameters or static_graph
        self.static_graph = static_graph
        self.require_backward_grad_sync = True
        self.require_forward_param_sync = True
        self._reduction = self._new_reduction()
        self.device = self._reduction.parameters[0].device
        self.device_type = self.device.type
        self.is_multi_device_module = len({p.device for p in self._reduction.parameters}) > 1
        if init_sync and self._size() > 1:
            self._reduction.check_same_everywhere()
            source, group = self._source(), process_group
            tensors = [*self._parameters_to_send(), *self._buffers_to_send()]
            backend().broadcast(tensors, source, group)
            backend().mark_step()

    def _show_torchs_attributes(
        self, device_ids: Any, output_device: Any, dim: int, options: dict[str, Any]
    ) -> None:
        """Set the attributes that torch's class has for other code to read. Nothing here uses them."""
        self.device_ids, self.output_device, self.dim = device_ids, output_device, dim
        self.gradient_as_bucket_view = bool(options.get("gradient_as_bucket_view", False))
        self.skip_all_reduce_unused_params = bool(
            options.get("skip_all_reduce_unused_params", False)
        )
        self.mixed_precision = None
        cap = options.get("bucket_cap_mb")
        self.bucket_bytes_cap_default = cap is None
        self.bucket_bytes_cap = int((25 if cap is None else cap) * 1024 * 1024)
        self.broadcast_bucket_size = 250 * 1024 * 1024
        self.use_side_stream_for_tensor_copies = False
        self.parameters_to_ignore = set(
            getattr(self.module, "_ddp_params_and_buffers_to_ignore", ())
        )
        # Torch's reducer and its log have no counterpart: the compiler does their work.
        self.reducer = self.logger = None  # type: ignore[assignment]

    @property
    def named_module_buffers(self) -> dict[str, torch.Tensor]:  # type: ignore[override]
        """The buffers that are sent from the first replica, by name."""
        named = self.module.named_buffers()
        return {name: buffer for name, buffer in named if name not in self.parameters_to_ignore}

    @property
    def modules_buffers(self) -> list[torch.Tensor]:  # type: ignore[override]
        """The buffers that are sent from the first replica."""
        return list(self.named_module_buffers.values())

    def _new_reduction(self) -> Reduction:
        ignored = getattr(self.module, "_ddp_params_and_buffers_to_ignore", ())
        named = [
            (name, parameter)
            for name, parameter in self.module.named_parameters()
            if parameter.requires_grad and name not in ignored
        ]
        if not named:
            raise RuntimeError(
                "DistributedDataParallel is not needed when a module doesn't have any parameters "
                "that require a gradient."
            )
        reduction = Reduction(named, self.find_unused_parameters, self.process_group, self._size())
        if self._size() > 1:
            reduction.attach()
        if world_size() > 1:
            # All of them, in a group of one too: what is not averaged here is not to be elsewhere.
            _gradients.look_after(self.module.parameters(), reduction)
        return reduction

    def _size(self) -> int:
        return (
            world_size() if self.process_group is None else dist.get_world_size(self.process_group)
        )

    def _parameters_to_send(self) -> list[torch.Tensor]:
        """All of them: those that are not trained have to be the same as well."""
        ignored = getattr(self.module, "_ddp_params_and_buffers_to_ignore", ())
        named = self.module.named_parameters()
        return [parameter.detach() for name, parameter in named if name not in ignored]

    def _buffers_to_send(self) -> list[torch.Tensor]:
        ignored = getattr(self.module, "_ddp_params_and_buffers_to_ignore", ())
        named = self.module.named_buffers()
        return [buffer for name, buffer in named if name not in ignored]

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        if self._size() == 1:
            return self.module(*self._moved(args), **self._moved(kwargs))
        trains = torch.is_grad_enabled() and self.require_backward_grad_sync
        if trains:
            self._reduction.check_complete()
        if self.require_forward_param_sync and self.broadcast_buffers:
            buffers = self._buffers_to_send()
            if buffers:
                backend().broadcast(buffers, self._source(), self.process_group)
        output = self.module(*self._moved(args), **self._moved(kwargs))
        self.require_forward_param_sync = trains
        if trains:
            self._reduction.expect()
        elif torch.is_grad_enabled():
            self._reduction.keep_local()
        return output

    def _source(self) -> int:
        """The replica whose buffers all have: the group's first."""
        group = self.process_group
        return 0 if group is None else dist.get_global_rank(group, 0)

    def _moved(self, inputs: Any) -> Any:
        def to_device(tensor: torch.Tensor) -> torch.Tensor:
            return tensor.to(self.device)

        return move(inputs, self.device, to_device)

    @contextlib.contextmanager
    def no_sync(self) -> Iterator[None]:
        """Gradients of forward passes in here are not averaged, but add up on each replica."""
        before = self.require_backward_grad_sync
        self.require_backward_grad_sync = False
        try:
            yield
        finally:
            self.require_backward_grad_sync = before

    def join(self, *args: Any, **kwargs: Any) -> Any:
        """Not available: XLA replicas run the same number of steps."""
        raise NotImplementedError(
            "DistributedDataParallel.join: XLA replicas have to run the same number of steps; give "
            "them batches of equal number (DistributedSampler, drop_last=True)"
        )

    def register_comm_hook(self, state: Any, hook: Any) -> None:
        """Hooks that send gradients in another type have no effect; others are refused."""
        name = getattr(hook, "__name__", repr(hook))
        if name not in ("allreduce_hook", "fp16_compress_hook", "bf16_compress_hook"):
            raise NotImplementedError(
                f"register_comm_hook({name}): XLA averages gradients within the graph, without "
                "hooks. Delete a hook that reduces traffic (PowerSGD). Move changes to gradients between "
                "backward and step, where gradients are averages. To compute your own sums, "
                "run forward under no_sync() and xla.all_reduce each gradient after backward"
            )

    def _set_static_graph(self) -> None:
        self.static_graph = self.find_unused_parameters = True
        self._reduction.finds_unused = True

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__.copy()
        del state["_reduction"]
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        nn.Module.__setstate__(self, state)  # type: ignore[no-untyped-call]
        self._reduction = self._new_reduction()
