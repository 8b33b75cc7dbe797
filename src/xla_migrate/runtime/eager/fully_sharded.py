"""``FullyShardedDataParallel`` and ``fully_shard`` on eager devices: torch's own.

``optimizer_step`` leaves their gradients alone: each replica has another part of them.
"""

from __future__ import annotations

from typing import Any

from torch import nn
from torch.distributed import fsdp

from .. import _gradients


class FullyShardedDataParallel(fsdp.FullyShardedDataParallel):
    """Torch's own."""

    def __init__(self, module: nn.Module, *args: Any, **kwargs: Any) -> None:
        super().__init__(module, *args, **kwargs)
        _gradients.look_after(self.parameters(), self)


def fully_shard(module: nn.Module, **options: Any) -> nn.Module:
    """Torch's own."""
    sharded: Any = fsdp.fully_shard(module, **options)
    _gradients.look_after(sharded.parameters(), sharded)
    return sharded  # type: ignore[no-any-return]
