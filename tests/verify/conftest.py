"""Shared fixtures of the verify room's tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from xla_migrate.verify import redirect


@pytest.fixture
def cuda() -> Iterator[None]:
    """CUDA redirected to the CPU for one test."""
    patches = redirect.install()
    try:
        yield
    finally:
        patches.undo()
