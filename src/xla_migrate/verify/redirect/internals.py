"""Places inside torch that look at the real device, or that only CUDA's kernels serve."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.utils._foreach_utils as foreach_utils
import torch.utils.checkpoint as activation_checkpoint
from torch.optim import optimizer as optimizer_module
from torch.utils._pytree import tree_map_only

from ..observe.device.device_values import real_device
from ..observe.process.patching import Patches
from .devices import cuda_index, device, state
from .marks import first_index, index_of, mark


def install(patches: Patches, *, keep_compile: bool) -> None:
    """Patch what the public surface does not reach."""
    _grouping(patches)
    _compile(patches, keep_compile)
    _typed_tensors(patches)
    _data_parallel(patches)
    _module_conversion(patches)
    _checkpointing(patches)


def _checkpointing(patches: Patches) -> None:
    """Activation checkpointing compares the devices of what it saved and of what it computes again; not all are marked."""

    def described(tensor: torch.Tensor) -> dict[str, Any]:
        return {"shape": tensor.shape, "dtype": tensor.dtype, "device": real_device(tensor)}

    checks = activation_checkpoint._allowed_determinism_checks_to_fns
    name = "_allowed_determinism_checks_to_fns"
    patches.put(activation_checkpoint, name, {**checks, "default": described})


def _grouping(patches: Patches) -> None:
    """Optimizers and clipping group tensors in C++ by the real device, then compare with `.device`."""
    group = foreach_utils._group_tensors_by_device_and_dtype

    def grouped(lists: Any, with_indices: bool = False) -> Any:
        index = first_index([t for one in lists for t in one if t is not None][:1])
        real = group(lists, with_indices)
        if index is None:
            return real
        return {(device(index), dtype): value for (_, dtype), value in real.items()}

    patches.put(foreach_utils, "_group_tensors_by_device_and_dtype", grouped)
    patches.put(optimizer_module, "_group_tensors_by_device_and_dtype", grouped)
    patches.put(torch.nn.utils.clip_grad, "_group_tensors_by_device_and_dtype", grouped)


def _compile(patches: Patches, keep: bool) -> None:
    if keep:
        return

    def identity(model: Any = None, **options: Any) -> Any:
        return (lambda fn: fn) if model is None else model

    patches.put(torch, "compile", identity)
    patches.put(torch.nn.Module, "compile", lambda self, *args, **kwargs: None)


class _TypedTensor(type):
    """torch.cuda.FloatTensor and its siblings: constructors and isinstance."""

    plain: Any

    def __instancecheck__(cls, instance: Any) -> bool:
        return (
            isinstance(instance, torch.Tensor)
            and index_of(instance) is not None
            and instance.dtype == cls.plain.dtype
        )

    def __call__(cls, *args: Any, device: Any = None, **kwargs: Any) -> torch.Tensor:
        args = tuple(a.cpu() if isinstance(a, torch.Tensor) else a for a in args)
        index = cuda_index("cuda" if device is None else device)
        out: torch.Tensor = cls.plain(*args, **kwargs)
        return mark(out, state.current if index is None else index)


def _typed_tensors(patches: Patches) -> None:
    for name in (
        "FloatTensor DoubleTensor HalfTensor BFloat16Tensor"
        " ByteTensor CharTensor ShortTensor IntTensor LongTensor BoolTensor"
    ).split():
        made = _TypedTensor(name, (), {"plain": getattr(torch, name), "__module__": "torch.cuda"})
        patches.put(torch.cuda, name, made)


def _data_parallel(patches: Patches) -> None:
    """nn.DataParallel scatters in C++; over one device that is a move, and so are several here.

    Splitting a batch over N devices and gathering gives what one device gives, except for batch norm,
    whose statistics then cover the whole batch.
    """

    def forward(self: Any, *inputs: Any, **kwargs: Any) -> Any:
        return self.module(*_on_device(inputs), **_on_device(kwargs))

    patches.put(torch.nn.DataParallel, "forward", forward)


def _on_device(values: Any) -> Any:
    return tree_map_only(torch.Tensor, lambda t: t.cuda() if index_of(t) is None else t, values)


def _module_conversion(patches: Patches) -> None:
    """`module.to(0)`: a torch built without CUDA cannot make a device of an integer."""
    to: Callable[..., Any] = torch.nn.Module.to

    def to_device(self: Any, *args: Any, **kwargs: Any) -> Any:
        if args and type(args[0]) is int:
            args = (device(cuda_index(args[0]) or 0), *args[1:])
        if type(kwargs.get("device")) is int:
            kwargs["device"] = device(cuda_index(kwargs["device"]) or 0)
        return to(self, *args, **kwargs)

    patches.put(torch.nn.Module, "to", to_device)
