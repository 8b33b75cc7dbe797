"""Shared fixtures of the verify room's tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from xla_migrate.verify import redirect

from ..torch_as_it_was import undo_torch_xla


@pytest.fixture
def cuda() -> Iterator[None]:
    """CUDA redirected to the CPU for one test."""
    patches = redirect.install()
    try:
        yield
    finally:
        patches.undo()


@pytest.fixture(autouse=True, scope="module")
def _torchs_own() -> None:
    """Whatever another room's tests have imported in this process."""
    undo_torch_xla()
