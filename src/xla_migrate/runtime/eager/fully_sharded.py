"""``FullyShardedDataParallel`` and ``fully_shard`` on eager devices: torch's own.

``optimizer_step`` leaves their gradients alone: each replica has another part of them.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.distributed import fsdp

from .. import _gradients
from ..devices import device_type

_UP_TO_DEVICE = 9  # arguments behind `module` up to `device_id`, itself counted


class FullyShardedDataParallel(fsdp.FullyShardedDataParallel):
    """Torch's own, which takes the CPU only where it is told to."""

    def __init__(self, module: nn.Module, *args: Any, **kwargs: Any) -> None:
        is_given = len(args) >= _UP_TO_DEVICE or kwargs.get("device_id") is not None
        if device_type() == "cpu" and not is_given:
            kwargs["device_id"] = torch.device("cpu")
        super().__init__(module, *args, **kwargs)
        _gradients.look_after(self.parameters(), self)


def fully_shard(module: nn.Module, **options: Any) -> nn.Module:
    """Torch's own."""
    sharded: Any = fsdp.fully_shard(module, **options)
    _gradients.look_after(sharded.parameters(), sharded)
    return sharded  # type: ignore[no-any-return]
