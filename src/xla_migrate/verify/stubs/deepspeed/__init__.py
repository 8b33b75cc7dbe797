"""deepspeed, of which only the fused optimizers have a stand-in."""

from __future__ import annotations

from typing import Any

from . import ops

__all__ = ["ops"]


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    raise NotImplementedError(
        f"deepspeed.{name}: deepspeed is not installed, and only its fused optimizers have a"
        " reference implementation; install deepspeed to verify this script"
    )
