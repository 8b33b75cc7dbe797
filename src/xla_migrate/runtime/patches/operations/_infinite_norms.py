"""``torch.norm`` with the order infinity is the largest absolute value.

The fault: torch_xla's kernel returns 1 for the orders inf and -inf, silently (fact 3.70), also for
``x.norm(inf)``, ``F.normalize(x, p=inf)`` and ``F.pairwise_distance(..., p=inf)``.
``torch.linalg.vector_norm``, which clips gradients, has another kernel, which is right.

To see it: ``torch.norm(torch.tensor([1.0, -5.0], device="xla"), float("inf"))``.
It can go when this fails: test_fact_3_70_torch_xlas_infinite_norms_are_one.

`half_sums`, which replaces the kernels of norms, calls `of_any_order`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

NORMS = """
norm.Scalar norm.ScalarOpt_dim norm.ScalarOpt_dtype norm.ScalarOpt_dim_dtype
""".split()


def of_any_order(theirs: Callable[..., Any]) -> Callable[..., Any]:
    """Return the kernel `theirs` of a norm, with the kernel of ``vector_norm`` for infinite orders."""

    def kernel(keys: Any, x: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        p = args[0] if args else None
        if p is None or not math.isinf(p):
            return theirs(keys, x, *args, **kwargs)
        return _vector_norm(x, *args, **kwargs)

    return kernel


def _vector_norm(
    x: torch.Tensor, p: float, dim: Sequence[int] = (), keepdim: bool = False, **kwargs: Any
) -> torch.Tensor:
    over = list(dim) or list(range(x.dim()))
    norm: torch.Tensor = torch.linalg.vector_norm(x, p, over, keepdim, **kwargs)
    return norm
