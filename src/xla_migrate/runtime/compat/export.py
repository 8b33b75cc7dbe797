"""Copies for exporters, which read or trace tensors on the CPU alone."""

from __future__ import annotations

import copy
from typing import Any, TypeVar

import torch
from torch import nn

from .._backend import uses_torch_xla
from ..checkpoints import settled

T = TypeVar("T")


def on_cpu(value: T) -> T:
    """Return a copy of `value` on the CPU, for ``torch.onnx.export`` and similar; the model does not move.

    On eager backends nothing is copied, since exporters can read the tensors on the device.

    Args:
        value: A module, a tensor, or a list, tuple or dict of them; anything else is returned unchanged.

    Returns:
        The same of copies; on eager backends `value`.

    Example:
        >>> next(xla.on_cpu(model).parameters()).device
        device(type='cpu')
        >>> xla.on_cpu((model(x), 1))[0].device
        device(type='cpu')
    """
    if not uses_torch_xla():
        return value
    settled()
    return _copied(value)  # type: ignore[no-any-return]


def _copied(value: Any) -> Any:
    if isinstance(value, nn.Module):
        return copy.deepcopy(value).cpu()
    if isinstance(value, torch.Tensor):
        return value.detach().cpu()
    if type(value) in (list, tuple):
        return type(value)(map(_copied, value))
    if type(value) is dict:
        return {key: _copied(part) for key, part in value.items()}
    return value
