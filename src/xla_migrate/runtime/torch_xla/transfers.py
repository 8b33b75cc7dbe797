"""Bringing values of XLA tensors to the host: several at once, and when the step is marked."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from .modules import torch_xla, xm, xr


def fetch(tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Copies on the host, in one transfer; what is pending runs first, once."""
    if xr.world_size() == 1:
        torch_xla._XLAC._xla_sync_live_tensors(str(tensors[0].device), [], False)
    fetched: list[torch.Tensor] = torch_xla._XLAC._xla_get_cpu_tensors(list(tensors))
    return fetched


def at_next_mark(function: Callable[[], None]) -> None:
    """Call `function` behind the next step mark, whoever makes it."""
    xm.add_step_closure(function)


def copied_alone(tensor: torch.Tensor) -> torch.Tensor:
    """A copy on the device that no graph of the step has a part in: launched by itself, and not waited for.

    What `tensor` depends on is launched as `.item()` would. In a rehearsal, which reduces on the host, graphs may differ.
    """
    if xr.world_size() == 1:
        return tensor.detach().clone()
    devices = [str(tensor.device)]
    torch_xla._XLAC._xla_sync_multi([tensor], devices, False)
    copy = tensor.detach().clone()
    torch_xla._XLAC._xla_sync_multi([copy], devices, False)
    return copy
