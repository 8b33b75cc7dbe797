"""Meshes in which each process has one device: tensors sharded over them are unchanged.

The script computes the same, on one device. Where several processes have been started, each would take itself for the whole
mesh, and so SPMD is refused there.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, TypeVar

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from ...devices import device_count, xla_device
from ...processes import world_size

_log = logging.getLogger("xla_migrate")
M = TypeVar("M", bound=nn.Module)
_is_on = False
_global_mesh: Mesh | None = None


def use_spmd(auto: bool = False) -> None:
    """``torch_xla.runtime.use_spmd``: from here on there is a mesh, of the one device of this process."""
    global _is_on
    if world_size() > 1:
        raise RuntimeError(
            "xla.spmd.use_spmd(): SPMD drives all devices from one process, and here are "
            f"{world_size()}. Without torch_xla shard with xla.FullyShardedDataParallel, or start one process"
        )
    if not _is_on and device_count() > 1:
        _log.warning(
            "SPMD needs torch_xla: without it the script trains on one of the %d devices. "
            "xla.FullyShardedDataParallel shards over all of them, with a process for each",
            device_count(),
        )
    _is_on = True


def is_spmd() -> bool:
    return _is_on


def global_runtime_device_count() -> int:
    return 1


def addressable_runtime_device_count() -> int:
    return 1


def global_runtime_device_attributes() -> list[dict[str, object]]:
    return [{"name": str(xla_device()).upper()}]


class Mesh:
    """A mesh of one device, whatever its axes are called."""

    def __init__(
        self,
        device_ids: Any,
        mesh_shape: Sequence[int],
        axis_names: Sequence[str] | None = None,
    ) -> None:
        ids = [int(each) for each in device_ids]
        assert len(ids) == 1, (
            f"Number of device IDs ({len(ids)}) must match the global number of devices (1)"
        )
        assert prod(mesh_shape) == 1, (
            f"a mesh of shape {tuple(mesh_shape)} has more than one device"
        )
        assert axis_names is None or len(axis_names) == len(mesh_shape), (
            f"Number of axis names ({axis_names}) must match mesh dimensions ({len(mesh_shape)})"
        )
        self.device_ids = torch.tensor(ids).numpy()
        self.mesh_shape = tuple(mesh_shape)
        self.axis_names = None if axis_names is None else tuple(axis_names)

    def size(self) -> int:
        return 1

    def shape(self) -> OrderedDict[Any, int]:
        return OrderedDict(zip(self.axis_names or range(len(self.mesh_shape)), self.mesh_shape))

    def get_logical_mesh(self) -> Any:
        return self.device_ids.reshape(self.mesh_shape)

    def get_axis_name_idx(self, name: str) -> int | None:
        names = self.axis_names or ()
        return names.index(name) if name in names else None


class HybridMesh(Mesh):
    """``torch_xla.distributed.spmd.HybridMesh`` of one device."""

    def __init__(
        self,
        *,
        ici_mesh_shape: Sequence[int],
        dcn_mesh_shape: Sequence[int] | None = None,
        axis_names: Sequence[str] | None = None,
    ) -> None:
        self.ici_mesh_shape = tuple(ici_mesh_shape)
        self.dcn_mesh_shape = tuple(dcn_mesh_shape or [1] * len(self.ici_mesh_shape))
        shape = [i * d for i, d in zip(self.ici_mesh_shape, self.dcn_mesh_shape)]
        super().__init__([0], shape, axis_names)


def get_1d_mesh(axis_name: str | None = None) -> Mesh:
    return Mesh([0], (1,), None if axis_name is None else (axis_name,))


def set_global_mesh(mesh: Mesh) -> None:
    global _global_mesh
    _global_mesh = mesh


def get_global_mesh() -> Mesh | None:
    return _global_mesh


@dataclass
class ShardingSpec:
    """How a batch is split: on one device, not at all. Device loaders accept it and keep the batch unchanged."""

    mesh: Mesh
    partition_spec: Sequence[Any]
    minibatch: bool | None = False

    def __post_init__(self) -> None:
        _check(self.mesh, self.partition_spec)

    def can_apply(self, t: torch.Tensor) -> bool:
        return t.dim() == len(self.partition_spec)

    def apply(self, t: torch.Tensor) -> None:
        mark_sharding(t, self.mesh, self.partition_spec)


def mark_sharding(t: torch.Tensor, mesh: Mesh, partition_spec: Sequence[Any]) -> torch.Tensor:
    """The tensor as it is: all of it is on the one device."""
    assert t.dim() == len(partition_spec), (
        f"Partition spec length ({len(partition_spec)}) should be equal to the input rank ({t.dim()})."
    )
    _check(mesh, partition_spec)
    return t


mark_sharding_with_gradients = annotate_custom_sharding = mark_sharding


def _check(mesh: Mesh, partition_spec: Sequence[Any]) -> None:
    """Raise if the mesh lacks an axis, as torch_xla does."""
    for part in partition_spec:
        for axis in part if isinstance(part, tuple | list) else (part,):
            if isinstance(axis, str):
                known = axis in (mesh.axis_names or ())
            else:
                known = axis is None or 0 <= int(axis) < len(mesh.mesh_shape)
            if not known:
                raise ValueError(f"Axis name {axis} is not defined in mesh axes {mesh.axis_names}")


def clear_sharding(t: torch.Tensor) -> torch.Tensor:
    return t


def apply_backward_optimization_barrier(m: nn.Module) -> None:
    """Nothing is fused here that a barrier could keep apart."""


def apply_xla_patch_to_nn_linear(module: M) -> M:
    """Another way to multiply, for the sake of shardings: the same product."""
    return module


# Wrapping. Policies receive torch_xla's argument `unwrapped_params`, which torch calls `nonwrapped_numel`.


def always_wrap_policy(*args: Any, **kwargs: Any) -> bool:
    return True


def lambda_auto_wrap_policy(
    module: nn.Module, recurse: bool, unwrapped_params: int, lambda_fn: Callable[[nn.Module], bool]
) -> bool:
    return recurse or lambda_fn(module)


def transformer_auto_wrap_policy(
    module: nn.Module,
    recurse: bool,
    unwrapped_params: int,
    transformer_layer_cls: Iterable[type[nn.Module]],
) -> bool:
    return recurse or isinstance(module, tuple(transformer_layer_cls))


def size_based_auto_wrap_policy(
    module: nn.Module,
    recurse: bool,
    unwrapped_params: int,
    min_num_params: int = int(1e8),
    force_leaf_modules: Iterable[type[nn.Module]] | None = None,
    exclude_wrap_modules: Iterable[type[nn.Module]] | None = None,
) -> bool:
    kept: Any = force_leaf_modules if recurse else exclude_wrap_modules
    if kept is None:
        kept = {nn.MultiheadAttention} if recurse else {nn.ModuleList, nn.ModuleDict}
    return unwrapped_params >= min_num_params and not isinstance(module, tuple(kept))


def recursive_wrap(
    module: nn.Module,
    auto_wrap_policy: Callable[..., bool],
    wrapper_cls: Callable[..., nn.Module],
    ignored_modules: Iterable[nn.Module],
    ignored_params: Iterable[nn.Parameter],
    only_wrap_children: bool = False,
    **kwargs: Any,
) -> tuple[nn.Module, int]:
    """The children that the policy chooses, wrapped, and how many parameters that makes."""
    left_out = {id(p) for p in ignored_params}
    count = sum(p.numel() for p in module.parameters() if id(p) not in left_out)
    if not auto_wrap_policy(module=module, recurse=True, unwrapped_params=count):
        return module, 0
    wrapped = 0
    for name, child in list(module.named_children()):
        if child in set(ignored_modules):
            continue
        new, of_child = recursive_wrap(
            child, auto_wrap_policy, wrapper_cls, ignored_modules, ignored_params, **kwargs
        )
        setattr(module, name, new)
        wrapped += of_child
    if not only_wrap_children and auto_wrap_policy(
        module=module, recurse=False, unwrapped_params=count - wrapped
    ):
        return wrapper_cls(module, **kwargs), count
    return module, wrapped


class SpmdFullyShardedDataParallel(nn.Module):
    """torch_xla's wrapper, with its names of parts and parameters, around a module whose weights are on one device."""

    def __init__(
        self,
        module: nn.Module,
        *,
        mesh: Mesh | None = None,
        shard_output: Callable[[Any, Mesh], Any] | None = None,
        auto_wrap_policy: Callable[..., bool] | None = None,
        auto_wrapper_callable: Callable[..., nn.Module] | None = None,
        extra_data_axis: str | None = None,
    ) -> None:
        if isinstance(module, SpmdFullyShardedDataParallel):
            raise RuntimeError("Cannot wrap a module that is already wrapped with FSDP.")
        mesh = mesh or get_global_mesh()
        if mesh is None:
            raise ValueError(
                "No mesh is provided and no global mesh is set. Please provide a mesh."
            )
        if "fsdp" not in (mesh.axis_names or ()):
            raise ValueError("The mesh must have an axis named 'fsdp'.")
        super().__init__()
        if auto_wrap_policy is not None:
            wrapper = auto_wrapper_callable or SpmdFullyShardedDataParallel
            options = {"mesh": mesh, "shard_output": shard_output}
            recursive_wrap(
                module, auto_wrap_policy, wrapper, (), (), only_wrap_children=True, **options
            )
        self._orig_module = module.to(xla_device())
        self._mesh, self._shard_output = mesh, shard_output

    @property
    def module(self) -> nn.Module:
        return self._orig_module

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        output = self.module(*args, **kwargs)
        if self._shard_output is not None:
            self._shard_output(output, self._mesh)
        return output

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(self.module, name)

    def __getitem__(self, key: Any) -> Any:
        return self.module.__getitem__(key)  # type: ignore[operator]


def checkpoint_module(module: M) -> M:
    """Recompute the module's forward pass where an input has gradients, as torch_xla's does."""
    forward = module.forward

    def recomputed(*args: Any, **kwargs: Any) -> Any:
        given = (*args, *kwargs.values())
        if any(isinstance(t, torch.Tensor) and t.requires_grad for t in given):
            return checkpoint(forward, *args, use_reentrant=False, **kwargs)
        return forward(*args, **kwargs)

    module.forward = recomputed
    return module
