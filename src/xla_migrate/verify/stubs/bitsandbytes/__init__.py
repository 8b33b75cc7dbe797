"""bitsandbytes, of which the optimizers have a stand-in: their 32-bit formulas.

8-bit states are a compression of the same optimizer; the reference computes what they approximate.
"""

from __future__ import annotations

from typing import Any, NoReturn

from . import optim

__all__ = ["nn", "optim"]


class NeedsCudaError(NotImplementedError, AttributeError):
    """An AttributeError: libraries ask `hasattr(bitsandbytes.nn, "Linear4bit")`."""


class _Nothing:
    """A module of which nothing has a reference implementation."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        return _refuse(f"{self._name}.{name}")


nn = _Nothing("nn")


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    return _refuse(name)


def _refuse(name: str) -> NoReturn:
    raise NeedsCudaError(
        f"bitsandbytes.{name} needs CUDA; only bitsandbytes.optim has a reference implementation"
    )
