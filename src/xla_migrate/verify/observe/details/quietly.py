"""The harness's own arithmetic: no autograd, no autocast, no modes of the script."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch


def off_mode(fn: Callable[..., Any], *args: Any) -> Any:
    """Return `fn(*args)`, computed without what the script has switched on."""
    with torch.no_grad(), torch._C.DisableTorchFunction(), torch._C._DisableAutocast():  # type: ignore[no-untyped-call]
        return fn(*args)
