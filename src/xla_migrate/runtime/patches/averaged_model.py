"""``torch.optim.swa_utils.AveragedModel`` uses separate memory.

The fault: it begins with a copy of each weight, and keeps copies of buffers. On XLA a copy comes to
share its source's memory (fact 3.12): if the source does not change, as in a frozen layer, or all
weights while the average is evaluated, the next change of the average takes that memory for its own
result, and whoever reads the source fails. So it is given weights that are no one else's.

To see it: average a model with a frozen layer twice, then read that layer: "buffer ... is deleted".
It can go when this fails: test_averages_take_the_memory_of_frozen_layers.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import cast

import torch
from torch.optim.swa_utils import AveragedModel

from .._backend import backend
from ._versions import Versions

VERSIONS = Versions("torch_xla", "2.9", "2.10")

_update_parameters = AveragedModel.update_parameters


def apply() -> None:
    """Keep averages in separate memory."""
    AveragedModel.update_parameters = _own_memory  # type: ignore[method-assign]


@functools.wraps(_update_parameters)
def _own_memory(self: AveragedModel, model: torch.nn.Module) -> None:
    _update_parameters(self, cast(torch.nn.Module, _Apart(model)))


class _Apart:
    """The attributes of a model that ``update_parameters`` reads, as copies."""

    def __init__(self, model: torch.nn.Module) -> None:
        self._model = model

    def parameters(self) -> Iterator[torch.Tensor]:
        return iter(backend().clones(list(self._model.parameters())))

    def buffers(self) -> Iterator[torch.Tensor]:
        return iter(backend().clones(list(self._model.buffers())))
