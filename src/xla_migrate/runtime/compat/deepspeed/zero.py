"""`deepspeed.zero`: where parameters are whole, or sharded by the compiler, there is nothing to gather."""

from __future__ import annotations

import contextlib
from typing import Any


class Init(contextlib.nullcontext[None]):
    """``deepspeed.zero.Init``: the model is built whole on the host; the engine moves it."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__()


class GatheredParameters(contextlib.nullcontext[None]):
    """``deepspeed.zero.GatheredParameters``: every replica has them, and may change them alike."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__()
