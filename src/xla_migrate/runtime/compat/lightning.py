"""What Lightning does not do on XLA devices, mended. Its modules are looked up when this is called.

Tried with Lightning 2.6 and torch_xla 2.9.
"""

from __future__ import annotations

import functools
import importlib
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import torch

from .._backend import uses_torch_xla
from ..precision import autocast

_FABRICS = ("lightning.fabric", "lightning_fabric")
_TRAINERS = ("lightning.pytorch", "pytorch_lightning")
_MIXED = "bf16-mixed"


def patch_lightning() -> None:
    """Let Lightning's Trainer and Fabric train on every XLA device, and in bfloat16.

    - ``accelerator="auto"`` takes the XLA device that torch_xla has. Lightning looks for a TPU alone, so on
      Trainium and on XLA:CPU it trains on the CPU, without torch_xla. There it gets one device.
    - ``precision="bf16-mixed"`` is bfloat16 autocast, as on CUDA. Lightning raises on XLA.

    Call it before the ``Trainer`` or ``Fabric`` is made. It changes nothing where torch_xla is not the backend, and
    a second call does nothing.

    Example:
        >>> xla.patch_lightning()
    """
    if not uses_torch_xla():
        return
    for package in _FABRICS:
        if package in sys.modules:
            _every_device(importlib.import_module(f"{package}.accelerators.xla").XLAAccelerator)
    for package in (*_FABRICS, *_TRAINERS):
        if package in sys.modules:
            _mixed(importlib.import_module(f"{package}.plugins.precision.xla").XLAPrecision)


def _every_device(accelerator: Any) -> None:
    count = accelerator.auto_device_count
    if hasattr(count, "of_xla_migrate"):
        return

    @functools.lru_cache(maxsize=1)
    def auto_device_count() -> int:
        # Not asked of torch_xla's runtime: a TPU's must not begin before Lightning starts its processes.
        try:
            return int(count()) or 1
        except (ValueError, AssertionError, OSError):
            return 1

    auto_device_count.of_xla_migrate = True  # type: ignore[attr-defined]
    accelerator.auto_device_count = staticmethod(auto_device_count)
    accelerator.is_available = staticmethod(lambda: True)


def _mixed(precision: Any) -> None:
    init = precision.__init__
    if hasattr(init, "of_xla_migrate"):
        return
    plain = precision.forward_context

    @functools.wraps(init)
    def with_mixed(self: Any, precision: str = "32-true") -> None:
        init(self, "32-true" if precision == _MIXED else precision)
        self.precision = precision

    with_mixed.of_xla_migrate = True  # type: ignore[attr-defined]
    precision.__init__ = with_mixed
    precision.forward_context = _forward_context(plain)


def _forward_context(plain: Callable[[Any], AbstractContextManager[None]]) -> Any:
    @contextmanager
    def forward_context(self: Any) -> Iterator[None]:
        with plain(self):
            if self.precision != _MIXED:
                yield
                return
            with autocast(dtype=torch.bfloat16):
                yield

    return forward_context
