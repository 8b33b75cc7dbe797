"""The first read of a value runs everything that is pending, so nothing is computed twice.

The fault: torch_xla computes for ``loss.item()`` what the loss depends on and leaves the rest pending,
so that the forward pass runs again with the next step mark (facts 3.20, 3.21): once more for each of
three metrics that are read between forward and backward. Here the first read runs everything that is
alive, as a step mark would, and the others only fetch.

To see it: ``xla.metrics()["launches"]`` of a step that reads its loss before backward.
It can go when this fails: test_torch_xla_runs_the_forward_pass_again_for_each_read.

Replicas that reduce on the device must all run the same programs, and one of them may read alone
(behind ``if rank == 0``). There torch_xla's way stays.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from typing import Any

import torch

from ._versions import Versions

VERSIONS = Versions("torch_xla", "2.9", "2.10")

READS = "item tolist cpu __bool__ __float__ __int__ __index__ __complex__".split()
_WATCHED = "_xla_migrate_watched"


def apply() -> None:
    """Watch the methods that fetch a tensor's value. To be called when the device is there."""
    xr: Any = importlib.import_module("torch_xla.runtime")
    if xr.world_size() > 1:
        return
    for name in READS:
        read = getattr(torch.Tensor, name)
        if not hasattr(read, _WATCHED):  # others, such as verify, may have wrapped ours
            setattr(torch.Tensor, name, _watched(read))


def _watched(read: Callable[..., Any]) -> Callable[..., Any]:
    sync: Any = importlib.import_module("torch_xla")._XLAC._xla_sync_live_tensors

    @functools.wraps(read)
    def watched(self: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        if self.device.type == "xla":
            sync(str(self.device), [], False)
        return read(self, *args, **kwargs)

    setattr(watched, _WATCHED, True)
    return watched
