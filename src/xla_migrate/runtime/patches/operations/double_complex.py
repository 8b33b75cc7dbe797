"""``cpu``, ``item`` and ``tolist`` keep the imaginary part of complex numbers in double precision.

The fault: torch_xla drops it, silently, when a complex128 tensor is copied to the CPU, or computed
there because an operation has no kernel (fact 3.69). Here, ``cpu``, ``item`` and ``tolist`` are
right. ``to("cpu")`` and operations that run on the CPU, such as inverse Fourier transforms of
float64 tensors, stay wrong: accelerators do not have the type.

To see it: ``torch.tensor([1 + 2j], dtype=torch.complex128, device="xla").cpu()``.
It can go when this fails: test_fact_3_69_torch_xla_drops_imaginary_parts.
"""

from __future__ import annotations

import functools
from typing import Any

import torch

from .._versions import Versions

VERSIONS = Versions("torch_xla", "2.9", "2.10")

PATCHED: list[tuple[Any, str]] = [
    (torch.Tensor, name) for name in ("cpu", "item", "tolist", "__complex__")
]


def apply() -> None:
    """Read real views. Casts, which are frequent, keep their kernel, and so `.to("cpu")` does."""
    for owner, name in PATCHED:
        setattr(owner, name, _by_real_view(getattr(owner, name)))


def _by_real_view(torchs: Any) -> Any:
    @functools.wraps(torchs)
    def method(self: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        if self.dtype is torch.complex128 and self.device.type == "xla":
            self = torch.view_as_complex(torch.view_as_real(self).cpu())
        return torchs(self, *args, **kwargs)

    return method
