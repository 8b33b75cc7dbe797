"""What a test may leave changed in torch, which the tests after it would then compute with."""

from __future__ import annotations

import sys
from typing import Any


def state() -> dict[str, Any]:
    """The settings of this process; empty as long as torch is not imported."""
    torch: Any = sys.modules.get("torch")
    if torch is None or not hasattr(torch, "get_autocast_dtype"):  # it may be amid its import
        return {}
    return {
        "function modes (a default device is one)": torch._C._len_torch_function_stack(),
        "dispatch modes": torch._C._len_torch_dispatch_stack(),
        "default type": torch.get_default_dtype(),
        "gradients": torch.is_grad_enabled(),
        "autocast": torch.is_autocast_enabled("cpu"),
        "autocast's type": torch.get_autocast_dtype("cpu"),
        "deterministic kernels": torch.are_deterministic_algorithms_enabled(),
        "anomaly detection": torch.is_anomaly_enabled(),
    }


def left(before: dict[str, Any], after: dict[str, Any]) -> str:
    """Return what has changed, or "" if nothing has or torch was not there before."""
    changed = [name for name in before if before[name] != after.get(name, before[name])]
    return ", ".join(f"{name}: {before[name]} became {after[name]}" for name in changed)
