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

    def __init__(
        self,
        module: nn.Module,
        device_ids: Any = None,
        output_device: Any = None,
        dim: int = 0,
    ) -> None:
        super().__init__(module, device_ids, output_device, dim)
        if not self.device_ids:  # derived classes read these, and torch sets them on CUDA only
            self.dim, self.output_device = dim, 0

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        if self.device_ids:
            return super().forward(*inputs, **kwargs)
        moved, named = self._moved(inputs, kwargs)
        return self.module(*moved, **named)

    # Derived classes call the next four.

    def scatter(self, inputs: Any, kwargs: Any, device_ids: Any) -> Any:
        if self.device_ids:
            return super().scatter(inputs, kwargs, device_ids)
        moved, named = self._moved(inputs, kwargs)
        return (moved,), (named,)

    def replicate(self, module: Any, device_ids: Any) -> Any:
        return super().replicate(module, device_ids) if self.device_ids else [module]

    def parallel_apply(self, replicas: Any, inputs: Any, kwargs: Any) -> Any:
        if self.device_ids:
            return super().parallel_apply(replicas, inputs, kwargs)
        named = kwargs or [{}] * len(inputs)
        return [replica(*i, **k) for replica, i, k in zip(replicas, inputs, named)]

    def gather(self, outputs: Any, output_device: Any) -> Any:
        return super().gather(outputs, output_device) if self.device_ids else outputs[0]

    def _moved(self, inputs: Any, kwargs: Any) -> Any:
        device = _device(self.module)
        if device is None:
            return inputs, kwargs

        def to_device(tensor: torch.Tensor) -> torch.Tensor:
            return tensor.to(device)

        return move((inputs, kwargs), device, to_device)


def _device(module: nn.Module) -> torch.device | None:
    held = next(itertools.chain(module.parameters(), module.buffers()), None)
    return None if held is None else held.device
