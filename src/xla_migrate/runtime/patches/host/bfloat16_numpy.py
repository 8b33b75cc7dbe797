"""``numpy()`` of a bfloat16 tensor gives a float32 array of the same numbers.

The fault: numpy has no bfloat16, so ``tensor.numpy()`` raises TypeError. What was float16 in the CUDA
script, which numpy has, is bfloat16 on XLA: the evaluation that ends in ``probabilities.cpu().numpy()``
would fail, after an epoch.

To see it: ``torch.ones(1, dtype=torch.bfloat16).numpy()``.
It can go when this fails: test_numpy_has_no_bfloat16.
"""

from __future__ import annotations

import functools
from typing import Any

import torch

from .._versions import Versions

VERSIONS = Versions("torch", "2.0")


def apply() -> None:
    """From now on ``Tensor.numpy()``, and so ``np.asarray``, of a bfloat16 tensor is a float32 array.

    It holds the same numbers; torch alone raises ``TypeError``. Arrays of other tensors stay as they
    are, and share the tensor's memory.
    """
    numpy = torch.Tensor.numpy

    @functools.wraps(numpy)
    def single(self: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        return numpy(self.float() if self.dtype is torch.bfloat16 else self, *args, **kwargs)

    torch.Tensor.numpy = single  # type: ignore[method-assign, assignment]
