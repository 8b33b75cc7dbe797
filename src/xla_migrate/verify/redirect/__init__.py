"""Run a CUDA script on a machine without CUDA, on the CPU, along its CUDA path.

A reference run must take the path that the script takes on a GPU: several scripts differ there in
more than the device (shuffling only under CUDA, for one), and comparing with the author's CPU branch
gives false divergences (reference/real-code). So `torch.cuda.is_available()` is True, tensors say
they are on cuda:0, and everything is computed by the CPU. Nothing in the user's files changes.
"""

from __future__ import annotations

from ..observe.process.patching import Patches
from . import (
    amp,
    deepspeed,
    distributed,
    factories,
    files,
    generators,
    internals,
    marks,
    packages,
    services,
    tensors,
)
from .devices import state
from .services import Unsupported

__all__ = ["Unsupported", "install"]


def install(*, device_count: int = 1, keep_compile: bool = False) -> Patches:
    """Redirect CUDA to the CPU in this process, from now on.

    Args:
        device_count: what `torch.cuda.device_count()` answers.
        keep_compile: run `torch.compile` for real; by default it returns its argument, since what it
            computes is the same and compiling for the CPU takes minutes.

    Returns:
        The patches; `undo()` takes them back.
    """
    patches = Patches()
    state.count = device_count
    factories.install(patches)
    tensors.install(patches)
    generators.install(patches)
    services.install(patches)
    amp.install(patches)
    files.install(patches)
    internals.install(patches, keep_compile=keep_compile)
    distributed.install(patches)
    packages.install(patches)
    deepspeed.install(patches)
    marks.install(patches)
    return patches
