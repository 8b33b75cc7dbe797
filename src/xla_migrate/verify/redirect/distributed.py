"""`torch.distributed` over NCCL, DDP and SyncBatchNorm, on gloo.

"CUDA" tensors of a redirected run are CPU tensors, so gloo carries them as they are. What NCCL has
and gloo has not is composed of what gloo has: averaging, and the list forms of scatter and exchange.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist

from ..observe.process.patching import Patches

_claimed: dict[str, str] = {}

# Every process group, to the end of the process. DDP, dropped after `destroy_process_group`, would
# otherwise end gloo's threads while it holds Python's lock, and one of them may wait for that lock
# to drop a tensor: the script has done its work, and does not exit. NCCL's groups have no such threads.
_kept: list[Any] = []


def _gloo(backend: Any) -> Any:
    """The backend to use for one that was asked for ("nccl", "cpu:gloo,cuda:nccl", None)."""
    if backend is None or "nccl" in str(backend).lower():
        return "gloo"
    return backend


class _Averaged:
    """The handle of an asynchronous sum that is divided when waited for."""

    def __init__(self, work: Any, finish: Callable[[], Any]) -> None:
        self._work, self._finish, self._done = work, finish, False

    def wait(self, *args: Any, **kwargs: Any) -> Any:
        out = self._work.wait(*args, **kwargs)
        if not self._done:
            self._done = True
            self._finish()
        return out

    def __getattr__(self, name: str) -> Any:
        return getattr(self._work, name)


def _is_average(value: Any) -> bool:
    return not isinstance(value, torch.Tensor) and bool(value == dist.ReduceOp.AVG)


def _averaging(collective: Callable[..., Any], tensor: str) -> Callable[..., Any]:
    """Accept ReduceOp.AVG, which only NCCL has: sum, then divide by the group's size."""

    @functools.wraps(collective)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        if not any(map(_is_average, (*args, kwargs.get("op")))):
            return collective(*args, **kwargs)
        args = tuple(dist.ReduceOp.SUM if _is_average(a) else a for a in args)
        if "op" in kwargs:
            kwargs["op"] = dist.ReduceOp.SUM
        result: torch.Tensor = args[0] if args else kwargs[tensor]
        size = dist.get_world_size(kwargs.get("group"))
        work = collective(*args, **kwargs)
        if work is not None:
            return _Averaged(work, lambda: result.div_(size))
        result.div_(size)
        return None

    return wrapped


def _gathering(collective: Callable[..., Any]) -> Callable[..., Any]:
    """Leave autograd and shapes out, as NCCL does.

    gloo refuses to fill views of tensors that require gradients, and an output that is no row of inputs.
    """

    @functools.wraps(collective)
    def wrapped(
        output_tensor: torch.Tensor, input_tensor: torch.Tensor, *args: Any, **kwargs: Any
    ) -> Any:
        flat = input_tensor.detach().reshape(-1)
        return collective(output_tensor.detach().view(-1), flat, *args, **kwargs)

    return wrapped


def _reduce_scatter(
    output: torch.Tensor,
    input_list: list[torch.Tensor],
    op: Any = dist.ReduceOp.SUM,
    group: Any = None,
    async_op: bool = False,
) -> None:
    whole = torch.stack([t.contiguous() for t in input_list])
    dist.all_reduce(whole, op=op, group=group)
    output.copy_(whole[dist.get_rank(group)])


def _all_to_all(
    output_tensor_list: list[torch.Tensor],
    input_tensor_list: list[torch.Tensor],
    group: Any = None,
    async_op: bool = False,
) -> None:
    mine = dist.get_rank(group)
    everything: list[Any] = [None] * dist.get_world_size(group)
    dist.all_gather_object(everything, input_tensor_list, group=group)
    for out, sent in zip(output_tensor_list, everything, strict=True):
        out.copy_(sent[mine])


def install(patches: Patches) -> None:
    """Route NCCL to gloo."""
    if not dist.is_available():
        return
    _process_groups(patches)
    _meshes(patches)
    _collectives(patches)
    _data_parallel(patches)
    _sync_batch_norm(patches)


def _process_groups(patches: Patches) -> None:
    init, new_group, barrier, get_backend = (
        dist.init_process_group,
        dist.new_group,
        dist.barrier,
        dist.get_backend,
    )

    @functools.wraps(init)
    def init_process_group(backend: Any = None, *args: Any, **kwargs: Any) -> None:
        kwargs.pop("device_id", None)
        kwargs.pop("pg_options", None)
        _claimed["default"] = "nccl" if _gloo(backend) != backend else str(backend)
        init(_gloo(backend), *args, **kwargs)
        _kept.append(dist.group.WORLD)

    @functools.wraps(new_group)
    def new(*args: Any, **kwargs: Any) -> Any:
        kwargs.pop("pg_options", None)
        kwargs.pop("device_id", None)
        if "backend" in kwargs:
            kwargs["backend"] = _gloo(kwargs["backend"])
        _kept.append(new_group(*args, **kwargs))
        return _kept[-1]

    def without_devices(group: Any = None, async_op: bool = False, device_ids: Any = None) -> Any:
        return barrier(group, async_op)

    def backend(group: Any = None) -> str:
        return _claimed.get("default", "gloo") if group is None else str(get_backend(group))

    patches.put(dist, "init_process_group", init_process_group)
    patches.put(dist, "new_group", new)
    patches.put(dist, "barrier", without_devices)
    patches.put(dist, "get_backend", backend)
    patches.put(dist, "is_nccl_available", lambda: True)


def _meshes(patches: Patches) -> None:
    """Meshes of "cuda", also the ones that `fully_shard` makes, are meshes of processes on the CPU."""
    from torch.distributed import device_mesh

    init = device_mesh.DeviceMesh.__init__

    @functools.wraps(init)
    def construct(self: Any, device_type: str, *args: Any, **kwargs: Any) -> None:
        init(self, "cpu" if device_type == "cuda" else device_type, *args, **kwargs)

    patches.put(device_mesh.DeviceMesh, "__init__", construct)
    for name in ("init_process_group", "new_group", "get_backend"):
        patches.put(device_mesh, name, getattr(dist, name))


def _collectives(patches: Patches) -> None:
    for name, tensor in (
        ("all_reduce", "tensor"),
        ("reduce", "tensor"),
        ("reduce_scatter_tensor", "output"),
    ):
        wrapped = _averaging(getattr(dist, name), tensor)
        patches.put(dist, name, wrapped)
        patches.put(dist.distributed_c10d, name, wrapped)
    gather = _gathering(dist.all_gather_into_tensor)
    for module in (dist, dist.distributed_c10d):
        patches.put(module, "all_gather_into_tensor", gather)
    patches.put(dist, "reduce_scatter", _reduce_scatter)
    patches.put(dist, "all_to_all", _all_to_all)


def _data_parallel(patches: Patches) -> None:
    """DDP with device_ids: on the CPU the module does not move, and inputs need no moving."""
    ddp = torch.nn.parallel.DistributedDataParallel
    init = ddp.__init__

    @functools.wraps(init)
    def construct(self: Any, module: Any, *args: Any, **kwargs: Any) -> None:
        names = ("device_ids", "output_device")
        kwargs = {**dict(zip((*names, "dim", "broadcast_buffers"), args, strict=False)), **kwargs}
        for name in names:
            kwargs.pop(name, None)
        init(self, module, **kwargs)

    patches.put(ddp, "__init__", construct)


def _sync_batch_norm(patches: Patches) -> None:
    """SyncBatchNorm's statistics come from CUDA kernels; here from a differentiable all-reduce."""
    import torch.distributed.nn.functional as differentiable
    from torch.nn.modules.batchnorm import SyncBatchNorm

    def forward(self: Any, x: torch.Tensor) -> torch.Tensor:
        self._check_input_dim(x)
        size = dist.get_world_size(self.process_group) if dist.is_initialized() else 1
        if not self.training or size == 1:
            return torch.nn.modules.batchnorm._BatchNorm.forward(self, x)
        dims = [d for d in range(x.dim()) if d != 1]
        count = torch.full((1,), float(x.numel() // x.size(1)))
        sums = torch.cat([x.float().sum(dims), x.float().square().sum(dims), count])
        sums = differentiable.all_reduce(sums, group=self.process_group or dist.group.WORLD)  # type: ignore[no-untyped-call]
        n = sums[-1].detach()
        mean, square = sums[:-1].chunk(2)
        mean = mean / n
        variance = square / n - mean.square()
        _update_running(self, mean.detach(), variance.detach() * n / (n - 1))
        shape = [1, -1] + [1] * (x.dim() - 2)
        out = (x - mean.view(shape)) * torch.rsqrt(variance + self.eps).view(shape)
        if self.affine:
            out = out * self.weight.view(shape) + self.bias.view(shape)
        return out.to(x.dtype)  # type: ignore[no-any-return]

    patches.put(SyncBatchNorm, "forward", forward)


def _update_running(norm: Any, mean: torch.Tensor, variance: torch.Tensor) -> None:
    if not norm.track_running_stats:
        return
    norm.num_batches_tracked.add_(1)
    factor = norm.momentum
    if factor is None:
        factor = 1.0 / float(norm.num_batches_tracked)
    norm.running_mean.lerp_(mean, factor)
    norm.running_var.lerp_(variance, factor)
