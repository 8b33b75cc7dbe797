"""One clear line when torch_xla takes the CPU because it found nothing else."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager

import torch

_log = logging.getLogger("xla_migrate")


@contextmanager
def cpu_notice() -> Iterator[None]:
    """Around the import of torch_xla, whose own line on this is easily missed.

    On a TPU host with a broken libtpu that default is a hundredfold slowdown (xla-facts 1.11).
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
            "PJRT_DEVICE=CPU says that you mean it.",
            "This machine has CUDA: XLA_MIGRATE_BACKEND=eager trains there. "
            if torch.cuda.is_available()
            else "",
        )


def _is_no_default(record: logging.LogRecord) -> bool:
    return not str(record.msg).startswith("Defaulting to PJRT_DEVICE=CPU")
