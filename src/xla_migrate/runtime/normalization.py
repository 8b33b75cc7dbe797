"""Batch norm over replicas."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from .devices import device_type
from .processes import world_size


class SyncBatchNorm(nn.SyncBatchNorm):
    """``torch.nn.SyncBatchNorm`` off CUDA, where torch's refuses; on CUDA this name is torch's own.

    With one replica its statistics are those of a batch norm. With several they would be each
    replica's own, silently, so that is refused.
    """

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        if self.training and world_size() > 1:
            raise RuntimeError(_NOT_OVER_REPLICAS)
        return _BatchNorm.forward(self, input)


def convert_sync_batchnorm(module: nn.Module, process_group: Any = None) -> nn.Module:
    """``SyncBatchNorm.convert_sync_batchnorm``. With one replica off CUDA, the module as it is.

    Args:
        module: What holds the batch norms.
        process_group: As for torch.
    """
    if device_type() == "cuda":
        converted: nn.Module = nn.SyncBatchNorm.convert_sync_batchnorm(module, process_group)  # type: ignore[no-untyped-call]
        return converted
    if world_size() > 1:
        raise RuntimeError(_NOT_OVER_REPLICAS)
    return module


_NOT_OVER_REPLICAS = (
    "batch norm statistics over several replicas are only available on CUDA; use ordinary batch "
    "norms, or a norm without batch statistics"
)
