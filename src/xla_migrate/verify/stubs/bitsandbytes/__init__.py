"""bitsandbytes, of which the optimizers have a stand-in: their 32-bit formulas.

8-bit states are a compression of the same optimizer; the reference computes what they approximate.
"""

from __future__ import annotations

from typing import Any

from . import optim

__all__ = ["optim"]


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    raise NotImplementedError(
        f"bitsandbytes.{name} needs CUDA; only bitsandbytes.optim has a reference implementation"
    )
