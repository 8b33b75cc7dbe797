"""``DistributedDataParallel`` on XLA. Eager backends have torch's own."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from torch import nn

from .processes import world_size


class DistributedDataParallel(nn.Module):
    """What scripts see of torch's: ``module``, its forward, ``no_sync``, keys with ``module.``

    Args:
        module: The model, on its device.
        ignored: torch's arguments, which concern CUDA devices and buckets.
    """

    def __init__(self, module: nn.Module, *ignored: Any, **ignored_too: Any) -> None:
        super().__init__()
        if world_size() > 1:
            raise RuntimeError(
                "DistributedDataParallel over several XLA replicas is not available: train the "
                "module itself with optimizer_step, which averages the gradients"
            )
        self.module = module

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.module(*args, **kwargs)

    @contextlib.contextmanager
    def no_sync(self) -> Iterator[None]:
        """Accumulate gradients: they are averaged at the step, not in backward."""
        yield
