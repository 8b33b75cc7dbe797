"""The options that an optimizer steps with: its learning rate, weight decay and so on, by group."""

from __future__ import annotations

from typing import Any

Group = dict[str, float | list[float]]

# How a step is computed, not what: the two runs may well differ in these.
_HOW = {"foreach", "fused", "capturable", "differentiable", "params", "param_names"}


def of(optimizer: Any) -> list[Group]:
    """Numbers and tuples of numbers of each group, as they are now.

    Tensors are left out: on a device, looking at them would be a host read.
    """
    return [
        {
            str(k): value
            for k, v in group.items()
            if k not in _HOW and (value := _plain(v)) is not None
        }
        for group in optimizer.param_groups
    ]


def _plain(value: Any) -> float | list[float] | None:
    if isinstance(value, (bool, int, float)):
        return float(value)
    if isinstance(value, (tuple, list)) and all(isinstance(v, (int, float)) for v in value):
        return [float(v) for v in value]
    return None
