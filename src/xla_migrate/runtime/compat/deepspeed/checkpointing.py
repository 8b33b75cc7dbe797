"""``deepspeed.checkpointing``: activations that are recomputed in the backward pass, by `xla.checkpoint`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...graphs import checkpoint as recomputed

__all__ = ["checkpoint", "configure", "is_configured", "reset"]

_is_configured = False


def checkpoint(function: Callable[..., Any], *args: Any) -> Any:
    """``deepspeed.checkpointing.checkpoint``: run ``function``, and run it again in the backward pass.

    Args:
        function: What to run.
        args: Its arguments.

    Returns:
        What ``function`` returned.

    Example:
        >>> hidden = deepspeed.checkpointing.checkpoint(layer, hidden)
    """
    return recomputed(function, *args, use_reentrant=False)


def configure(mpu_: Any = None, deepspeed_config: Any = None, **options: Any) -> None:
    """``deepspeed.checkpointing.configure``: its options save memory on CUDA, and change no result.

    Args:
        mpu_: What DeepSpeed divides activations among.
        deepspeed_config: The configuration.
        options: ``partition_activations``, ``checkpoint_in_cpu`` and others. They have no effect.
    """
    global _is_configured
    _is_configured = True


def is_configured() -> bool:
    """``deepspeed.checkpointing.is_configured``: return True once `configure` was called."""
    return _is_configured


def reset() -> None:
    """``deepspeed.checkpointing.reset``: there are no buffers to empty."""
