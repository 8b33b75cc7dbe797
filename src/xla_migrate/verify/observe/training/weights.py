"""The weights after each step, kept by the original and taken by the migrated script.

Training that amplifies rounding parts by itself. So that its steps can be compared all the same, the
migrated script can take each of them from the original's own weights: what differs then has come from
that step alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from ..device.device_values import real_device
from ..process import records

_load, _save = torch.load, torch.save  # before the script's are watched


def keep(folder: str, event: int, parameters: Sequence[torch.Tensor]) -> None:
    """Write what the parameters are after a step."""
    cpu = torch._C.TensorBase.cpu
    _save([cpu(p.detach()) for p in parameters], _file(folder, event))


def take(folder: str, event: int, parameters: Sequence[torch.Tensor]) -> None:
    """Set the parameters to what the original's were after the step; its file is not needed again."""
    file = _file(folder, event)
    if not file.is_file():
        return
    kept: list[Any] = _load(file, map_location="cpu", weights_only=True)
    file.unlink()
    for p, value in zip(parameters, kept, strict=False):
        if p.shape == value.shape:
            p.detach().copy_(torch._C.TensorBase.to(value, real_device(p)))


def _file(folder: str, event: int) -> Path:
    return Path(folder) / f"rank{records.rank()}.step{event}.pt"
