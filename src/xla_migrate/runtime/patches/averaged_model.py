"""``torch.optim.swa_utils.AveragedModel`` holds memory of its own.

The fault: it begins with a copy of each weight, and keeps copies of buffers. On XLA a copy comes to
share its source's memory (fact 3.12): where the source does not change, as in a frozen layer, the next
average hands that memory to its own result, and whoever reads the source fails.

To see it: average a model with a frozen layer twice, then read that layer: "buffer ... is deleted".
It can go when this fails: test_averages_take_the_memory_of_frozen_layers.
"""

from __future__ import annotations

import functools
import importlib
from typing import Any

import torch
from torch.optim.swa_utils import AveragedModel

from ._versions import Versions

VERSIONS = Versions("torch_xla", "2.9", "2.10")

_update_parameters = AveragedModel.update_parameters


def apply() -> None:
    """Make averages hold memory of their own."""
    AveragedModel.update_parameters = _own_memory  # type: ignore[method-assign]


@functools.wraps(_update_parameters)
def _own_memory(self: AveragedModel, model: torch.nn.Module) -> None:
    _update_parameters(self, model)
    tensors = (*self.module.parameters(), *self.module.buffers())
    copies = [tensor.detach() for tensor in tensors if tensor.device.type == "xla"]
    if copies:
        xm: Any = importlib.import_module("torch_xla.core.xla_model")
        xm.optimization_barrier_(copies)
