"""The ways in which scripts name a CUDA device, and the state that `torch.cuda` keeps about them."""

from __future__ import annotations

from typing import Any

import torch


class State:
    """The number of devices that the script sees, and the current one."""

    count: int = 1
    current: int = 0
    default: torch.device | None = None  # what set_default_device / default tensor type chose


state = State()


def is_spec(value: Any) -> bool:
    """True if a positional argument of `.to()` and the like names a device."""
    return isinstance(value, (str, torch.device)) or type(value) is int


def cuda_index(spec: Any) -> int | None:
    """The index of the CUDA device that `spec` names; None for any other device and for None.

    Accepted as CUDA accepts them: "cuda", "cuda:1", 1, torch.device("cuda"), torch.device("cuda", 1).

    One redirected device stands for every index: a script that names `cuda:1` or `device_ids=[0, 1]`
    was written for a machine with more GPUs.

    Raises:
        RuntimeError: of several redirected devices, none has the index, as on a real machine.
    """
    if type(spec) is int:
        index: int | None = spec
    elif isinstance(spec, torch.device):
        if spec.type != "cuda":
            return None
        index = spec.index
    elif isinstance(spec, str) and spec.startswith("cuda"):
        index = torch.device(spec).index
    else:
        return None
    if index is None or index == -1:
        return state.current
    if index >= state.count > 1:
        raise RuntimeError(
            f"CUDA error: invalid device ordinal: cuda:{index} of {state.count} redirected device(s)"
        )
    return index


def device(index: int) -> torch.device:
    """The torch.device that a tensor on that index answers with."""
    return torch.device("cuda", index)
