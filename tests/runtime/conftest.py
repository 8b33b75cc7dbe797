"""Both backends in one process: XLA:CPU, and the eager CPU when a test asks for it."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator

os.environ.setdefault("PJRT_DEVICE", "CPU")

import pytest
import torch

from xla_migrate import runtime as xla
from xla_migrate.runtime import _backend
from xla_migrate.runtime.patches import complex_products, host_reads, shared_inputs
from xla_migrate.runtime.patches.linear_algebra import log_determinants
from xla_migrate.runtime.patches.operations import (
    double_complex,
    scaled_products,
)

from ..torch_as_it_was import Patched, restore, take_back, undo_torch_xla
from .rehearsal import start_device


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> torch.device:
    """The XLA device, with nothing pending on it."""
    start_device()
    from xla_migrate.runtime.torch_xla import backend as torch_xla_backend

    monkeypatch.setattr(_backend, "_chosen", torch_xla_backend)
    device = xla.xla_device()
    xla.flush()  # what an earlier test deferred would be fetched during this one, once 0.5 s have passed
    xla.mark_step()
    return device


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """The eager backend; its device is the CPU on the machines of the tests."""
    from xla_migrate.runtime.eager import backend as eager_backend

    monkeypatch.setattr(_backend, "_chosen", eager_backend)


@pytest.fixture
def logged() -> Iterator[list[logging.LogRecord]]:
    """What is logged during the test, which may set the level."""
    level = logging.root.level
    records: list[logging.LogRecord] = []
    handler = logging.Handler()
    handler.emit = records.append  # type: ignore[method-assign, assignment]
    logging.root.addHandler(handler)
    yield records
    logging.root.removeHandler(handler)
    logging.root.setLevel(level)


_PATCHED = [
    *((torch.Tensor, name) for name in host_reads.READS),
    *shared_inputs.JOINS,
    *complex_products.PATCHED,
    *double_complex.PATCHED,
    *scaled_products.PATCHED,
    *log_determinants.PATCHED,
]
_taken_back: Patched = []  # while tests of other folders run


@pytest.hookimpl(trylast=True)  # after the device was started
def pytest_collection_finish(session: pytest.Session) -> None:
    """Apply the runtime's patches before the first test.

    A patch keeps what it replaces. Applied during another folder's test, it would keep that test's
    own replacement.
    """
    if not session.config.option.collectonly:
        from xla_migrate.runtime.torch_xla import backend as torch_xla_backend

        torch_xla_backend.device()
        _take_back()


def _take_back() -> None:
    _taken_back[:] = [*take_back(_PATCHED, "__wrapped__"), *undo_torch_xla()]


@pytest.fixture(autouse=True, scope="package")
def _torch_as_it_was() -> Iterator[None]:
    """Take back torch_xla's patches of torch (fact 1.106) and ours while other folders' tests run."""
    restore(_taken_back)
    yield
    _take_back()
