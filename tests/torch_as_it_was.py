"""What importing torch_xla changes of torch (fact 1.106), taken back for tests in the same process that want torch's own."""

from __future__ import annotations

import torch


def undo_torch_xla() -> None:
    """Torch's functions and classes as they were, where torch_xla has put others in their place."""
    for module, name in (
        (torch.nn.utils, "clip_grad_norm_"),
        (torch.nn, "GRU"),
        (torch.nn.functional, "batch_norm"),
    ):
        patched = getattr(module, name)
        setattr(module, name, getattr(patched, "_orig", patched))
