"""Arrays of bfloat16 tensors.

What was float16 in the CUDA script, which numpy has, is bfloat16 now, which it has not: the
evaluation that ends in ``probabilities.cpu().numpy()`` would fail, after an epoch.
"""

from __future__ import annotations

import functools
from typing import Any

import torch

_OURS = "_xla_migrate_single"


def give_single_for_bfloat16() -> None:
    """From now on ``Tensor.numpy()``, and so ``np.asarray``, of a bfloat16 tensor is a float32 array.

    It holds the same numbers; torch alone raises ``TypeError``. Arrays of other tensors stay as they
    are, and share the tensor's memory.
    """
    numpy = torch.Tensor.numpy
    if hasattr(numpy, _OURS):
        return

    @functools.wraps(numpy)
    def single(self: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        return numpy(self.float() if self.dtype is torch.bfloat16 else self, *args, **kwargs)

    setattr(single, _OURS, True)
    torch.Tensor.numpy = single  # type: ignore[method-assign, assignment]
