"""apex.parallel: DistributedDataParallel, SyncBatchNorm and its conversion."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import SyncBatchNorm

__all__ = ["DistributedDataParallel", "Reducer", "SyncBatchNorm", "convert_syncbn_model"]


class DistributedDataParallel(torch.nn.parallel.DistributedDataParallel):
    """Averages gradients over processes; apex's tuning arguments change no number."""

    def __init__(
        self,
        module: torch.nn.Module,
        message_size: int = 10000000,
        delay_allreduce: bool = False,
        shared_param: Any = None,
        allreduce_trigger_params: Any = None,
        retain_allreduce_buffers: bool = False,
        allreduce_always_fp32: bool = False,
        num_allreduce_streams: int = 1,
        allreduce_communicators: Any = None,
        gradient_average: bool = True,
        gradient_predivide_factor: float = 1.0,
        gradient_average_split_factor: Any = None,
        prof: bool = False,
    ) -> None:
        if not gradient_average:
            raise NotImplementedError("apex DistributedDataParallel(gradient_average=False)")
        super().__init__(module)


class Reducer:
    """Averages the gradients of a module (or a list of tensors) when told to."""

    def __init__(self, module_or_grads_list: Any) -> None:
        self.module = module_or_grads_list
        if isinstance(self.module, torch.nn.Module):
            for parameter in self.module.parameters():
                torch.distributed.broadcast(parameter.data, 0)

    def reduce(self) -> None:
        """All-reduce to the mean."""
        if isinstance(self.module, torch.nn.Module):
            grads = [p.grad for p in self.module.parameters() if p.grad is not None]
        else:
            grads = list(self.module)
        for grad in grads:
            torch.distributed.all_reduce(grad)
            grad.div_(torch.distributed.get_world_size())


def convert_syncbn_model(
    module: torch.nn.Module, process_group: Any = None, channel_last: bool = False
) -> torch.nn.Module:
    """Every batch norm to a SyncBatchNorm."""
    return SyncBatchNorm.convert_sync_batchnorm(module, process_group)  # type: ignore[no-any-return,no-untyped-call]
