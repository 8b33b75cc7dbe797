"""Buffers of a model that accelerate prepared, in several processes: those of the first, as DistributedDataParallel keeps them.

On XLA accelerate wraps no model, so each process would evaluate with running statistics of its own batches.
Tried with accelerate 1.15 and torch_xla 2.9.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

Tensors = list[torch.Tensor]


def share_buffers(
    model: torch.nn.Module, accelerator: Any, send: Callable[[Tensors], None]
) -> None:
    """Before a forward pass that follows one with gradients that are reduced, buffers become those of the first process.

    Only modules whose buffers have changed since are sent, such as those with running statistics: constant masks
    and tables are not.

    Args:
        model: prepared, with the same buffers in all processes.
        accelerator: its ``sync_gradients`` says whether gradients of a pass are reduced.
        send: makes tensors those of the first process, in place.
    """
    known = _versions(model)
    is_due = True

    def before(module: torch.nn.Module, inputs: Any) -> None:
        if not is_due:
            return
        changed = [m for m, version in _versions(module).items() if version != known.get(m)]
        buffers = [b for m in changed for b in m.buffers(recurse=False) if b.device.type == "xla"]
        if buffers:
            send(buffers)
        known.update({m: _version(m) for m in changed})

    def after(module: torch.nn.Module, inputs: Any, output: Any) -> None:
        nonlocal is_due
        is_due = torch.is_grad_enabled() and accelerator.sync_gradients

    model.register_forward_pre_hook(before)
    model.register_forward_hook(after)


_Version = list[tuple[int, int]]


def _versions(model: torch.nn.Module) -> dict[torch.nn.Module, _Version]:
    return {module: _version(module) for module in model.modules() if module._buffers}


def _version(module: torch.nn.Module) -> _Version:
    """Return which buffers the module has, and how often they were changed in place.

    A batch norm's kernel changes running statistics without a trace, but counts its batches.
    """
    return [(id(b), b._version) for b in module.buffers(recurse=False)]
