"""``FullyShardedDataParallel`` and ``fully_shard`` on eager devices: torch's own.

``optimizer_step`` leaves their gradients alone: each replica has another part of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar

import torch
from torch import nn
from torch.distributed import fsdp

from .. import _gradients
from ..devices import device_type

Parts = TypeVar("Parts", bound=nn.Module | Iterable[nn.Module])
_DEVICE_ID = 8  # its place behind `module`


class FullyShardedDataParallel(fsdp.FullyShardedDataParallel):
    """Torch's own, which takes the CPU only where it is told to, and a number for CUDA's device."""

    def __init__(self, module: nn.Module, *args: Any, **kwargs: Any) -> None:
        if device_type() == "cpu":
            place = args[_DEVICE_ID] if len(args) > _DEVICE_ID else kwargs.pop("device_id", None)
            if not isinstance(place, torch.device):
                place = torch.device("cpu")
            if len(args) > _DEVICE_ID:
                args = (*args[:_DEVICE_ID], place, *args[_DEVICE_ID + 1 :])
            else:
                kwargs["device_id"] = place
        super().__init__(module, *args, **kwargs)
        _gradients.look_after(self.parameters(), self)


def fully_shard(module: Parts, **options: Any) -> Parts:
    """Torch's own."""
    taken: Any = module
    sharded: Any = fsdp.fully_shard(taken, **options)
    for part in [module] if isinstance(module, nn.Module) else list(module):
        _gradients.look_after(part.parameters(), part)
    return sharded  # type: ignore[no-any-return]
