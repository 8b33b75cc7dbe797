"""Send batches to a CUDA device from pinned memory, on a separate stream, during computation.

The copies are made by ``tensor.to(device, non_blocking=True)``, so results are the same bit for
bit. Operations that use a batch wait for its copy on the device, never on the host.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from ..loading.batches import move, tensors_in


@dataclass
class _Sent:
    batch: Any
    copied: Any


class CudaSender:
    """Copies on a side stream.

    Args:
        device: The CUDA device.
        cuda: ``torch.cuda``, or what stands in for it in a test.
    """

    def __init__(self, device: torch.device, cuda: Any = torch.cuda) -> None:
        self._device = device
        self._cuda = cuda
        self._stream = cuda.Stream(device)

    def send(self, batch: Any) -> _Sent:
        """Start the copies; runs in any thread."""
        # The device, too: a thread begins on device 0, and would take memory there.
        with self._cuda.device(self._device), self._cuda.stream(self._stream):
            moved = move(batch, self._device, self._copy)
            return _Sent(moved, self._stream.record_event())

    def receive(self, sent: _Sent) -> Any:
        """Order what comes next on the current stream after the copies."""
        current = self._cuda.current_stream(self._device)
        current.wait_event(sent.copied)
        for tensor in tensors_in(sent.batch):
            if tensor.device == self._device:
                # Else the allocator could hand the memory on while this stream still reads it.
                tensor.record_stream(current)
        return sent.batch

    def _copy(self, tensor: torch.Tensor) -> torch.Tensor:
        if tensor.layout is torch.strided and not tensor.is_pinned():
            tensor = tensor.pin_memory()
        return tensor.to(self._device, non_blocking=True)
