"""Dispatch modes that stay on until the process ends."""

from __future__ import annotations

from torch.utils._python_dispatch import TorchDispatchMode

# torch frees a mode that nobody else keeps when it prints a tensor, and crashes.
_entered: list[TorchDispatchMode] = []


def enter_for_good(mode: TorchDispatchMode) -> None:
    """Enter `mode` in this thread and in the backward passes that it starts; nothing leaves it."""
    mode.__enter__()  # type: ignore[no-untyped-call]
    _entered.append(mode)
