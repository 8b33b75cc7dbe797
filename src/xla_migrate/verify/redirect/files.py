"""`torch.save` and `torch.load` in a redirected run: device tags as on a GPU.

torch asks a registry for the location tag of a storage and for a storage at a location; one entry
before CUDA's own makes files say "cuda:0" for what the script believes there, reads files written on
real GPUs, and serves every form of `map_location` (fact 1.44).
"""

from __future__ import annotations

from typing import Any

import torch

from ..observe.process.patching import Patches
from .devices import cuda_index
from .marks import mark_storage, storage_index

_BEFORE_ALL = 1


def _tag(storage: Any) -> str | None:
    index = storage_index(storage)
    return None if index is None else f"cuda:{index}"


def _restore(storage: Any, location: str) -> Any:
    if not isinstance(location, str) or not location.startswith("cuda"):
        return None
    return mark_storage(storage, cuda_index(location))


def install(patches: Patches) -> None:
    """Register the redirected CUDA with torch's serialization."""
    registry = torch.serialization._package_registry
    torch.serialization.register_package(_BEFORE_ALL, _tag, _restore)
    entry = next(e for e in registry if e[1] is _tag)
    patches.on_undo(lambda: registry.remove(entry))
