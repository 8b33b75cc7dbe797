"""Steps with a value of the device in each."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from xla_migrate import runtime as xla


def steps_of(device: torch.device, count: int = 3) -> Iterator[tuple[int, torch.Tensor]]:
    """The number of each, as it is and as a tensor."""
    for k in range(count):
        yield k, torch.ones((), device=device) * k
        xla.mark_step()
