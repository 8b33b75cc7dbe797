"""Provide the removed torch_xla names that ignite needs. ignite is imported when this is called.

Tried with ignite 0.5.5 and torch_xla 2.9.
"""

from __future__ import annotations

import functools
import importlib
import inspect
from typing import Any

import torch

from .._backend import uses_torch_xla


def patch_ignite() -> None:
    """Let ignite train on XLA devices as it does on CUDA.

    - Ranks and the number of processes are torch_xla's. ignite uses names that torch_xla 2.7 has removed, so
      that metrics and ``Checkpoint`` raise an ``AttributeError``, also in one process.
    - A metric that is given an XLA device keeps its sums on the CPU. ignite refuses the device.

    Call it before engines, metrics and handlers are made. It changes nothing where torch_xla is not the backend or ignite
    is not installed, and a second call does nothing.

    Example:
        >>> xla.patch_ignite()
    """
    if not uses_torch_xla():
        return
    try:
        metric: Any = importlib.import_module("ignite.metrics.metric").Metric
    except ModuleNotFoundError:
        return
    from ..torch_xla.modules import xm, xr

    gone = {
        "xrt_world_size": lambda *_: xr.world_size(),
        "get_ordinal": lambda *_: xr.global_ordinal(),
        "get_local_ordinal": lambda: xr.local_ordinal(),
    }
    for name, function in gone.items():
        if not hasattr(xm, name):
            setattr(xm, name, function)
    if not hasattr(metric.__init__, "of_xla_migrate"):
        metric.__init__ = _on_the_host(metric.__init__)


def _on_the_host(init: Any) -> Any:
    signature = inspect.signature(init)

    @functools.wraps(init)
    def initialized(*args: Any, **kwargs: Any) -> None:
        given = signature.bind(*args, **kwargs)
        if torch.device(given.arguments.get("device", "cpu")).type == "xla":
            given.arguments["device"] = "cpu"
        init(*given.args, **given.kwargs)

    initialized.of_xla_migrate = True  # type: ignore[attr-defined]
    return initialized
