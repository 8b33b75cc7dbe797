"""Averages of weights on XLA: torch.optim.swa_utils.AveragedModel.

It begins with a copy of each weight, and keeps copies of buffers. On XLA a copy comes to share its source's
memory (xla-facts 3.12): where the source does not change, as in a frozen layer, the next average hands
that memory to its own result, and whoever reads the source fails with "buffer ... is deleted".
"""

from __future__ import annotations

import functools

import torch
from torch.optim.swa_utils import AveragedModel

from ._xla_modules import xm

_update_parameters = AveragedModel.update_parameters


def patch() -> None:
    """Make averages hold memory of their own."""
    AveragedModel.update_parameters = _own_memory  # type: ignore[method-assign]


@functools.wraps(_update_parameters)
def _own_memory(self: AveragedModel, model: torch.nn.Module) -> None:
    _update_parameters(self, model)
    tensors = (*self.module.parameters(), *self.module.buffers())
    copies = [tensor.detach() for tensor in tensors if tensor.device.type == "xla"]
    if copies:
        xm.optimization_barrier_(copies)
