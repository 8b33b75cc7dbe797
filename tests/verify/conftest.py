"""Shared fixtures of the verify room's tests."""

from __future__ import annotations

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
