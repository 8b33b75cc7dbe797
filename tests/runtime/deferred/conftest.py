"""Nothing of one test waits in another."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from xla_migrate import runtime as xla


@pytest.fixture(autouse=True)
def nothing_waits() -> Iterator[None]:
    xla.flush()
    yield
    xla.flush()
