"""Complex numbers of double precision keep their imaginary part on the way to the host.

The fault: torch_xla drops it, silently, when a complex128 tensor is copied to the CPU, printed, or
computed there because an operation has no kernel (fact 3.69). So the inverse Fourier transforms of
float64 tensors are wrong.

To see it: ``torch.tensor([1 + 2j], dtype=torch.complex128, device="xla").cpu()``.
It can go when this fails: test_fact_3_69_torch_xla_drops_imaginary_parts.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import torch

from .._versions import Versions
from ._kernels import put

VERSIONS = Versions("torch_xla", "2.9", "2.10")

_WITHOUT_ARGUMENTS = ("cpu", "tolist")
PATCHED: list[tuple[Any, str]] = [(torch.Tensor, name) for name in (*_WITHOUT_ARGUMENTS, "to")]


def apply() -> None:
    """Copy real views before torch_xla copies. Casts, which are frequent, keep their kernel."""
    fetch: Any = torch.library.get_kernel("aten::_to_cpu", "XLA")
    read: Any = torch.library.get_kernel("aten::_local_scalar_dense", "XLA")

    def fetched(keys: Any, tensors: Sequence[torch.Tensor]) -> Any:
        if all(x.dtype is not torch.complex128 for x in tensors):
            return fetch.call_boxed(keys, tensors)
        return [_of_kernel(x) if x.dtype is torch.complex128 else x.cpu() for x in tensors]

    def scalar(keys: Any, x: torch.Tensor) -> Any:
        if x.dtype is torch.complex128:
            return _of_kernel(x).item()
        return read.call_boxed(keys, x)

    put(__name__, {"_to_cpu": fetched, "_local_scalar_dense": scalar}, "XLA", with_keyset=True)
    for owner, name in PATCHED:
        setattr(owner, name, _from_the_host(getattr(owner, name), name))


def _from_the_host(torchs: Any, name: str) -> Any:
    @functools.wraps(torchs)
    def method(self: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        if self.dtype is torch.complex128 and self.device.type == "xla":
            if name in _WITHOUT_ARGUMENTS or any(map(_is_host, (*args, *kwargs.values()))):
                self = torch.view_as_complex(torch.view_as_real(self).cpu())
        return torchs(self, *args, **kwargs)

    return method


def _is_host(argument: Any) -> bool:
    """Return True for "cpu", its device, and a tensor that is there."""
    if isinstance(argument, torch.Tensor):
        argument = argument.device
    return isinstance(argument, (str, torch.device)) and torch.device(argument).type == "cpu"


def _of_kernel(x: torch.Tensor) -> torch.Tensor:
    """Return a copy on the CPU, where functions of views are not available."""
    return torch.view_as_complex(torch.ops.aten.view_as_real_copy.default(x).cpu())
