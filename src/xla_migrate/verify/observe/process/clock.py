"""Wall-clock time of the training, without the harness's own."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

_spent = 0.0
_depth = 0


@contextmanager
def harness() -> Iterator[None]:
    """Time spent in here is not the script's; nested uses count once."""
    global _spent, _depth
    start = time.perf_counter()
    _depth += 1
    try:
        yield
    finally:
        _depth -= 1
        if _depth == 0:
            _spent += time.perf_counter() - start


def inside() -> bool:
    """True if the harness itself is at work."""
    return _depth > 0


def now() -> tuple[float, float]:
    """(script's seconds, harness's seconds) since the start of the process."""
    return time.perf_counter() - _spent, _spent
