"""Random functions with a CPU generator draw on the host and read nothing from the device.

The fault: torch_xla draws from a CPU generator as the CPU does, on a copy of the tensor that it reads from the device
first. Each draw is a launch, a read and a wait. XLA has no generators of its own, so ``xla.generator`` is one of the CPU.

To see it: ``xla.metrics()["host_reads"]`` of ``torch.randn(2, device=device, generator=torch.Generator())``.
It can go when this fails: test_torch_xla_reads_a_tensor_to_draw_it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from .._versions import Versions
from ..operations._kernels import put

VERSIONS = Versions("torch_xla", "2.9", "2.10")

# What torch's random functions call on XLA: they take a tensor only for its shape and type.
OPERATIONS = ("bernoulli.p", "normal_functional", "random", "random.from", "random.to", "uniform")


def apply() -> None:
    """Put a kernel before each of torch_xla's, for calls with a generator."""
    kernels = {name: _drawing(name) for name in OPERATIONS}
    put(__name__, kernels, "XLA", with_keyset=True)


def _drawing(name: str) -> Callable[..., Tensor]:
    operation, _, overload = name.partition(".")
    on_cpu = getattr(getattr(torch.ops.aten, operation), overload or "default")
    theirs: Callable[..., Tensor] = torch.library.get_kernel(f"aten::{name}", "XLA").call_boxed

    def kernel(
        keys: Any, x: Tensor, *args: Any, generator: torch.Generator | None = None
    ) -> Tensor:
        if generator is None:
            return theirs(keys, x, *args)
        drawn: Tensor = on_cpu(torch.empty(x.shape, dtype=x.dtype), *args, generator=generator)
        return drawn.to(x.device)

    return kernel
