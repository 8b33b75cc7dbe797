"""Both backends in one process: XLA:CPU, and the eager CPU when a test asks for it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

os.environ.setdefault("PJRT_DEVICE", "CPU")

import pytest
import torch

from xla_migrate import runtime as xla
from xla_migrate.runtime import _backend
from xla_migrate.runtime.patches import complex_numbers, host_reads, shared_inputs

from ..torch_as_it_was import undo_torch_xla
from .rehearsal import compile_quickly


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> torch.device:
    """The XLA device, with nothing pending on it."""
    compile_quickly()
    from xla_migrate.runtime.torch_xla import backend as torch_xla_backend

    monkeypatch.setattr(_backend, "_chosen", torch_xla_backend)
    device = xla.xla_device()
    xla.mark_step()
    return device


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """The eager backend; its device is the CPU on the machines of the tests."""
    from xla_migrate.runtime.eager import backend as eager_backend

    monkeypatch.setattr(_backend, "_chosen", eager_backend)


@pytest.fixture(autouse=True, scope="package")
def _torch_as_it_was() -> Iterator[None]:
    """Take torch_xla's patches of torch (fact 1.106) and ours back, for the other rooms' tests."""
    yield
    for name in host_reads.READS:
        read: Any = getattr(torch.Tensor, name)
        setattr(torch.Tensor, name, getattr(read, "__wrapped__", read))
    for owner, name in (*shared_inputs.JOINS, *complex_numbers.PATCHED):
        join: Any = getattr(owner, name)
        setattr(owner, name, getattr(join, "__wrapped__", join))
    undo_torch_xla()
