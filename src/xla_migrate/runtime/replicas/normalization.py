"""Batch norm over replicas."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from .._backend import backend
from ..devices import device_type
from ..processes import rank, world_size


class SyncBatchNorm(nn.SyncBatchNorm):
    """``torch.nn.SyncBatchNorm`` off CUDA, where torch's refuses; on CUDA this name is torch's own.

    In training, mean and variance are computed over all replicas' batches together, which may differ in
    size. With one replica it is a batch norm.

    Args:
        num_features: Channels, the second dimension of the input.
        eps: As for torch.
        momentum: As for torch; None averages over all batches.
        affine: As for torch.
        track_running_stats: As for torch.
        process_group: The replicas whose batches count; all by default.
        device: Where its parameters are made.
        dtype: Of its parameters.

    Example:
        >>> layer = xla.SyncBatchNorm(4).to(device)
        >>> layer(torch.ones(2, 4, 8, 8, device=device)).shape
        torch.Size([2, 4, 8, 8])
    """

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        if not self.training or self._size() == 1:
            return _BatchNorm.forward(self, input)
        self._check_input_dim(input)
        mean, variance, count = self._statistics(input)
        if self.track_running_stats:
            self._update_running(mean.detach(), variance.detach() * count / (count - 1))
        shape = [1, -1] + [1] * (input.dim() - 2)
        scale, shift = torch.rsqrt(variance + self.eps), self.bias
        if self.affine:
            scale = scale * self.weight
        output = (input - mean.view(shape)) * scale.view(shape)
        if self.affine:
            output = output + shift.view(shape)
        return output.to(input.dtype)

    def _size(self) -> int:
        group = self.process_group
        return world_size() if group is None else dist.get_world_size(group)

    def _statistics(self, input: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Mean and variance of each channel over all replicas, and of how many numbers."""
        over = [dim for dim in range(input.dim()) if dim != 1]
        x = input.float()
        variance, mean = torch.var_mean(x, over, correction=0)
        count = torch.full((1,), x.numel() / x.size(1), device=x.device)
        own = torch.cat([mean, variance, count])
        # One row for each replica, filled by it: their sum is what all of them have. Data, and not
        # constants: replicas have to run the same graph.
        position = rank() if self.process_group is None else dist.get_rank(self.process_group)
        row = torch.eye(self._size())[position].to(x.device)
        rows: Any = _Sum.apply(row[:, None] * own, self.process_group)  # type: ignore[no-untyped-call]
        means, variances, counts = rows.split([mean.numel(), mean.numel(), 1], dim=1)
        total = counts.detach().sum()
        share = counts.detach() / total
        mean = (share * means).sum(0)
        return mean, (share * (variances + (means - mean).square())).sum(0), total

    @torch.no_grad()
    def _update_running(self, mean: torch.Tensor, variance: torch.Tensor) -> None:
        assert self.running_mean is not None
        assert self.running_var is not None
        assert self.num_batches_tracked is not None
        self.num_batches_tracked.add_(1)
        factor: Any = self.momentum
        if factor is None:
            factor = 1 / self.num_batches_tracked.to(mean.dtype)
        self.running_mean.lerp_(mean.to(self.running_mean.dtype), factor)
        self.running_var.lerp_(variance.to(self.running_var.dtype), factor)


class _Sum(torch.autograd.Function):
    """The sum over replicas. Each one's loss depends on every one's input, so gradients add up too."""

    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor, group: Any) -> torch.Tensor:
        ctx.group = group
        return _sum(tensor, group)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        return _sum(gradient, ctx.group), None


def _sum(tensor: torch.Tensor, group: Any) -> torch.Tensor:
    summed = tensor.detach().clone(memory_format=torch.contiguous_format)
    backend().total([summed], 1.0, group)
    return summed


def convert_sync_batchnorm(module: nn.Module, process_group: Any = None) -> nn.Module:
    """``SyncBatchNorm.convert_sync_batchnorm``. With one replica off CUDA, the module as it is, except for layers that are
    ``SyncBatchNorm`` already, or a library's that derives from it: torch's refuses every tensor off CUDA once there is a
    process group.

    Args:
        module: The module that contains the batch norms.
        process_group: As for torch.

    Returns:
        The module, with its batch norms replaced; a new module if it is a batch norm itself.

    Example:
        >>> net = torch.nn.Sequential(torch.nn.BatchNorm1d(4), model)
        >>> net = xla.convert_sync_batchnorm(net)
    """
    on_cuda = device_type() == "cuda"
    converted = module
    if on_cuda or world_size() > 1:
        converted = _converted(module, process_group)
    for layer in converted.modules():
        if not on_cuda and isinstance(layer, nn.SyncBatchNorm):
            layer.__class__ = _of_the_runtime(type(layer))
    return converted


def _converted(module: nn.Module, group: Any) -> nn.Module:
    """Convert as torch does, but keep synchronised layers of libraries, with their activations."""
    if isinstance(module, nn.SyncBatchNorm) and type(module) is not nn.SyncBatchNorm:
        return module
    if isinstance(module, _BatchNorm):
        layer: nn.Module = nn.SyncBatchNorm.convert_sync_batchnorm(module, group)  # type: ignore[no-untyped-call]
        return layer
    for name, child in module.named_children():
        module.add_module(name, _converted(child, group))
    return module


# A library's class -> the same with this forward in the place of torch's.
_synchronised: dict[Any, type[nn.SyncBatchNorm]] = {nn.SyncBatchNorm: SyncBatchNorm}


def _of_the_runtime(kind: type[nn.SyncBatchNorm]) -> type[nn.SyncBatchNorm]:
    if issubclass(kind, SyncBatchNorm):
        return kind
    if kind not in _synchronised:
        names = {"__module__": kind.__module__}
        _synchronised[kind] = type(kind.__name__, (kind, SyncBatchNorm), names)
    return _synchronised[kind]
