"""``scan``, and ``nn.GRU``, compute the gradient of their input in every training step.

The fault: ``scan`` caches its backward graph by the shapes and types of its arguments, not by ``requires_grad``. If its
first input needs no gradient, as in an evaluation before training or in the first layer of a GRU, later inputs of this
shape get none either. The layers before it do not train, and nothing says so. The same holds for autocast.

To see it: call a ``nn.GRU`` under ``torch.no_grad()``, then in training; the gradient of its input is missing.
It can go when this fails: test_scan_ignores_requires_grad.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from .._versions import Versions

VERSIONS = Versions("torch_xla", "2.9", "2.10")


def apply() -> None:
    """Add what the cache ignores to the partition function, which is part of its key."""
    scan: Any = importlib.import_module("torch_xla.experimental.scan")
    original = scan.value_and_grad_partitioned

    @functools.wraps(original)
    def value_and_grad_partitioned(
        fn: Any, init: Any, xs: Any, partition_fn: Any = scan.default_partition, **options: Any
    ) -> Any:
        needed = tuple(x.requires_grad for x in tree_leaves(xs))
        casts = torch.is_autocast_enabled("xla"), torch.get_autocast_dtype("xla")
        return original(fn, init, xs, partition_fn=_same(partition_fn, needed, casts), **options)

    scan.value_and_grad_partitioned = value_and_grad_partitioned


@functools.cache
def _same(partition_fn: Callable[..., Any], *key: object) -> Callable[..., Any]:
    """Return a function that does what `partition_fn` does, another one for each key."""
    return lambda *args, **kwargs: partition_fn(*args, **kwargs)
