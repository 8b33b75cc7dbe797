"""Many small tensors fetched as one, on each device."""

from __future__ import annotations

from collections.abc import Callable

import torch

from ..device import device_values


def fetch_later(tensors: list[torch.Tensor], use: Callable[[list[float]], None]) -> None:
    """Call `use` with all numbers of the tensors, in their order, once they are known."""
    sizes = [t.numel() for t in tensors]
    groups: dict[torch.device, list[int]] = {}
    for i, tensor in enumerate(tensors):
        groups.setdefault(device_values.real_device(tensor), []).append(i)
    fields = [torch.cat([tensors[i] for i in group]) for group in groups.values()]

    def put_together(values: list[list[float]]) -> None:
        parts: list[list[float]] = [[] for _ in sizes]
        for group, numbers in zip(groups.values(), values, strict=True):
            at = 0
            for i in group:
                parts[i] = numbers[at : at + sizes[i]]
                at += sizes[i]
        use([number for part in parts for number in part])

    device_values.later(fields, put_together)
