"""Shared fixtures of the verify room's tests."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from xla_migrate.verify import redirect

from ..torch_as_it_was import restore, undo_torch_xla


@pytest.fixture
def cuda() -> Iterator[None]:
    """CUDA redirected to the CPU for one test."""
    patches = redirect.install()
    try:
        yield
    finally:
        patches.undo()


@pytest.fixture(autouse=True, scope="module")
def _torchs_own() -> Iterator[None]:
    """Use torch's own functions, whatever tests of other folders have imported in this process."""
    patched = undo_torch_xla()
    yield
    restore(patched)


@pytest.fixture(autouse=True, scope="module")
def _only_their_own_objects() -> None:
    """`gc.get_objects()`, with which the harness finds models, leaves out what other tests have made."""
    gc.freeze()
