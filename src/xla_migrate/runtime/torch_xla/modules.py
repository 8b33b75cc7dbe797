"""The modules of torch_xla that the backend uses, imported with one clear line where that means the
CPU.

They are untyped, so they are ``Any`` here.
"""

from __future__ import annotations

import importlib
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

_log = logging.getLogger("xla_migrate")


@contextmanager
def cpu_notice() -> Iterator[None]:
    """Around the import of torch_xla, whose own line on this is easily missed.

    On a TPU host with a broken libtpu that default is a hundredfold slowdown (fact 1.11).
    """
    chosen = "PJRT_DEVICE" in os.environ
    root = logging.getLogger()
    root.addFilter(_is_no_default)
    try:
        yield
    finally:
        root.removeFilter(_is_no_default)
    if not chosen and os.environ.get("PJRT_DEVICE") == "CPU":
        _log.warning(
            "no TPU or Neuron device found, so this trains on the CPU (XLA:CPU). %s"
            "Set PJRT_DEVICE=CPU to confirm the choice.",
            "This machine has CUDA: XLA_MIGRATE_BACKEND=eager trains there. "
            if torch.cuda.is_available()
            else "",
        )


def _is_no_default(record: logging.LogRecord) -> bool:
    return not str(record.msg).startswith("Defaulting to PJRT_DEVICE=CPU")


def _torch_xla() -> Any:
    try:
        with cpu_notice():
            return importlib.import_module("torch_xla")
    except ImportError as error:
        raise ImportError(
            f"torch_xla cannot be imported with torch {torch.__version__} ({error}): install the "
            "matching torch (torch_xla 2.9 needs torch 2.9), or set "
            "XLA_MIGRATE_BACKEND=eager"
        ) from error


torch_xla = _torch_xla()
xm: Any = importlib.import_module("torch_xla.core.xla_model")
xr: Any = importlib.import_module("torch_xla.runtime")
matmul: Any = importlib.import_module("torch_xla.backends")
met: Any = importlib.import_module("torch_xla.debug.metrics")
