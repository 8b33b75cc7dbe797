"""``DataParallel``: one process that drives several CUDA devices, and one of any other kind."""

from __future__ import annotations

import itertools
from typing import Any

import torch
from torch import nn

from ..loading.batches import move


class DataParallel(nn.DataParallel[nn.Module]):
    """``torch.nn.DataParallel``, which brings its inputs to the module's device on every backend.

    On CUDA it is torch's class. Elsewhere the one module computes on its own device; torch's class
    would hand it inputs from the CPU as they are, which XLA refuses.

    Args:
        module: The model, on its device.
        device_ids: As for torch, on CUDA; of no effect elsewhere.
        output_device: As for torch, on CUDA.
        dim: As for torch: the dimension of the batch.

    Example:
        >>> xla.DataParallel(model)(torch.ones(3, 4)).shape
        torch.Size([3, 2])
    """

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        if self.device_ids:
            return super().forward(*inputs, **kwargs)
        device = _device(self.module)
        if device is None:
            return self.module(*inputs, **kwargs)

        def to_device(tensor: torch.Tensor) -> torch.Tensor:
            return tensor.to(device)

        moved, named = move((inputs, kwargs), device, to_device)
        return self.module(*moved, **named)


def _device(module: nn.Module) -> torch.device | None:
    held = next(itertools.chain(module.parameters(), module.buffers()), None)
    return None if held is None else held.device
