"""``FullyShardedDataParallel`` and ``fully_shard`` on eager devices: torch's own.

``optimizer_step`` leaves their gradients alone: each replica has another part of them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

import torch
from torch import nn
from torch.distributed import fsdp
from torch.distributed.fsdp import _flat_param, _init_utils

from .. import _gradients
from ..devices import device_type, xla_device
from . import native

Parts = TypeVar("Parts", bound=nn.Module | Iterable[nn.Module])
_DEVICE_ID = 8  # its place behind `module`


class FullyShardedDataParallel(fsdp.FullyShardedDataParallel):
    """Torch's class, which uses the CPU only on request and expects a number as CUDA device."""

    def __init__(self, module: nn.Module, *args: Any, **kwargs: Any) -> None:
        if device_type() == "cpu":
            place = args[_DEVICE_ID] if len(args) > _DEVICE_ID else kwargs.pop("device_id", None)
            if not isinstance(place, torch.device):
                place = torch.device("cpu")
            if len(args) > _DEVICE_ID:
                args = (*args[:_DEVICE_ID], place, *args[_DEVICE_ID + 1 :])
            else:
                kwargs["device_id"] = place
        elif native.is_native(device_type()):
            _init_utils._move_states_to_device = _move_states  # type: ignore[assignment]
        if device_type() != "cuda":
            _flat_param.FlatParamHandle.to_cpu = _stays  # type: ignore[method-assign,assignment]
        super().__init__(module, *args, **kwargs)
        _gradients.leave_to(self)

    def state_dict(self, *args: Any, **kwargs: Any) -> Any:
        """Torch's state dict, moved to the host if it should be offloaded."""
        found = super().state_dict(*args, **kwargs)
        if native.is_native(device_type()) and getattr(
            self._state_dict_config, "offload_to_cpu", False
        ):
            for name, value in found.items():
                if type(value) is torch.Tensor:
                    found[name] = value.cpu()
        return found


def _move_states(
    parameters: Iterable[nn.Parameter], buffers: Iterable[torch.Tensor], device: torch.device
) -> None:
    """Torch's own sets ``.data``, which it refuses for devices that a package brings."""
    with torch.no_grad():
        for tensor in (*parameters, *buffers):
            if tensor.device != device:
                hooks = tensor._backward_hooks
                moved = tensor.to(device).requires_grad_(tensor.requires_grad)
                torch._C._swap_tensor_impl(tensor, moved)
                tensor._backward_hooks = hooks


@contextlib.contextmanager
def _stays(handle: Any) -> Iterator[None]:
    """In the place of ``to_cpu``, which sets ``.data``, too, and on the CPU frees what it has not copied: ``state_dict``
    moves what it hands out.
    """
    yield


def fully_shard(module: Parts, **options: Any) -> Parts:
    """Torch's own."""
    parts = [module] if isinstance(module, nn.Module) else list(module)
    if native.is_native(_kind(options)):
        bring(parts, options.get("ignored_params") or ())
    taken: Any = module
    sharded: Any = fsdp.fully_shard(taken, **options)
    for part in parts:
        _gradients.leave_to(part)
    return sharded  # type: ignore[no-any-return]


def _kind(options: dict[str, Any]) -> str:
    mesh = options.get("mesh")
    return device_type() if mesh is None else str(mesh.device_type)


def bring(modules: Iterable[nn.Module], ignored: Iterable[nn.Parameter] = ()) -> None:
    """To the device, what is on the host and not split yet.

    ``fully_shard`` moves it by ``parameter.data``, which torch refuses for devices that a package brings.
    """
    left_out, device = set(map(id, ignored)), xla_device()

    def moved(tensor: torch.Tensor) -> torch.Tensor:
        return tensor.to(device) if tensor.device.type == "cpu" else tensor

    for module in modules:
        for part in module.modules():
            own = list(part.parameters(recurse=False))
            if not any(hasattr(p, "to_local") or id(p) in left_out for p in own):
                part._apply(moved, recurse=False)  # type: ignore[no-untyped-call]
