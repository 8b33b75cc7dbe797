"""``DistributedDataParallel`` on eager devices: torch's own."""

from __future__ import annotations

from typing import Any

from torch import nn

from .. import _gradients


class DistributedDataParallel(nn.parallel.DistributedDataParallel):
    """Torch's own. ``optimizer_step`` leaves its gradients alone."""

    def __init__(self, module: nn.Module, *args: Any, **kwargs: Any) -> None:
        if not args and "device_ids" not in kwargs:
            kwargs["device_ids"] = _device_ids(module)
        super().__init__(module, *args, **kwargs)
        _gradients.look_after(module.parameters(), self)


def _device_ids(module: nn.Module) -> list[int] | None:
    """With them torch brings inputs to the device; migrated scripts no longer say which it is."""
    devices = {parameter.device for parameter in module.parameters()}
    only = devices.pop() if len(devices) == 1 else None
    return [only.index] if only is not None and only.index is not None else None
