"""`torch.Generator(device="cuda")`: a CPU generator that says it is CUDA's."""

from __future__ import annotations

from typing import Any

import torch

from ..observe.process.patching import Patches
from .devices import cuda_index, device


class Generator(torch._C.Generator):
    """A CPU generator with the device that the script asked for."""

    _claimed: int | None

    def __new__(cls, device: Any = None) -> Generator:
        index = cuda_index(device)
        real = "cpu" if index is not None or device is None else device
        self: Generator = super().__new__(cls, real)  # type: ignore[call-arg]
        self._claimed = index
        return self

    @property
    def device(self) -> torch.device:  # type: ignore[override]
        """The device that the script sees for the generator."""
        return torch.device("cpu") if self._claimed is None else device(self._claimed)


def install(patches: Patches) -> None:
    """Make torch.Generator accept CUDA devices; isinstance still knows torch's own generators."""

    class Meta(type):
        def __instancecheck__(cls, instance: Any) -> bool:
            return isinstance(instance, torch._C.Generator)

    # The class that scripts see must be the one that C++ accepts, hence a subclass of torch._C's.
    patches.put(torch, "Generator", Meta("Generator", (Generator,), {}))
