"""Take back what importing torch_xla changes in torch (fact 1.106), and make the changes again.

Tests in one process need both: those of `verify` want torch's own functions, and those of the
runtime want torch_xla's. Each folder takes back what the other has changed, and restores it after
its tests, so that the folders can run in any order.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch

Patched = list[tuple[Any, str, Any]]
CHANGED_BY_TORCH_XLA: tuple[tuple[Any, str], ...] = (
    (torch.nn.utils, "clip_grad_norm_"),
    (torch.nn, "GRU"),
    (torch.nn.functional, "batch_norm"),
)


def take_back(names: Iterable[tuple[Any, str]], original: str) -> Patched:
    """Put the original of each name in its place; return what was there, for `restore`.

    Args:
        names: owners and attributes of functions or classes that may be patched.
        original: the attribute in which a patched object keeps its original.
    """
    patched = [(owner, name, getattr(owner, name)) for owner, name in names]
    for owner, name, value in patched:
        setattr(owner, name, getattr(value, original, value))
    return patched


def undo_torch_xla() -> Patched:
    """Put torch's own functions and classes in place of torch_xla's."""
    distributed: Any = torch.distributed
    new_group = (distributed, "new_group", distributed.new_group)
    distributed.new_group = distributed.distributed_c10d.new_group
    return [*take_back(CHANGED_BY_TORCH_XLA, "_orig"), new_group]


def restore(patched: Patched) -> None:
    """Put back what `take_back` replaced."""
    for owner, name, value in patched:
        setattr(owner, name, value)
