"""In-place operations of equal shapes, or with numbers, are not asked in Python whether their shapes fit.

The fault: for each in-place operation on a tensor of the device torch works out in Python what shape the operands broadcast to,
dimension by dimension: half of the host's time for an ``add_`` or ``mul_``, and a third of that of a small SGD step.
Operands of the tensor's own shape, and those without dimensions, fit as they are.

To see it: time ``x.add_(y)`` on the device with and without it.
It can go when this fails: test_torch_works_out_the_shapes_of_equal_operands.
"""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch import _meta_registrations as registrations

from ._versions import Versions

VERSIONS = Versions("torch", "2.9", "2.10")

_check: Any = registrations.check_inplace_broadcast


def apply() -> None:
    """Let equal shapes pass."""
    registrations.check_inplace_broadcast = _checked


@functools.wraps(_check)
def _checked(self_shape: Any, *args_shape: Any) -> None:
    if not torch.compiler.is_compiling() and all(
        not shape or shape == self_shape for shape in args_shape
    ):
        return
    _check(self_shape, *args_shape)
