"""Operands of equal shapes are not asked in Python what shape their result has.

The fault: for each in-place operation on a tensor of the device torch works out in Python what shape the operands broadcast to,
dimension by dimension: half of the host's time for an ``add_`` or ``mul_``. For ``addcdiv_``, ``addcmul_`` and ``lerp_``
it works out types and strides there, too: Adam pays that for each of its parameters. Operands of one shape, type and
order in memory have a result like the first of them, and what has no dimensions fits any.

To see it: time ``x.addcdiv_(y, z)`` on the device with and without it.
It can go when this fails: test_torch_works_out_the_shapes_of_equal_operands.
"""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch import _meta_registrations as registrations
from torch._prims_common import ELEMENTWISE_TYPE_PROMOTION_KIND

from ._versions import Versions

VERSIONS = Versions("torch", "2.9", "2.10")

_check: Any = registrations.check_inplace_broadcast
_elementwise: Any = registrations.elementwise_meta
_DEFAULT = ELEMENTWISE_TYPE_PROMOTION_KIND.DEFAULT


def apply() -> None:
    """Let equal shapes pass."""
    registrations.check_inplace_broadcast = _checked
    registrations.elementwise_meta = _result


@functools.wraps(_check)
def _checked(self_shape: Any, *args_shape: Any) -> None:
    if not torch.compiler.is_compiling() and all(
        not shape or shape == self_shape for shape in args_shape
    ):
        return
    _check(self_shape, *args_shape)


@functools.wraps(_elementwise)
def _result(*args: Any, type_promotion: Any) -> Any:
    first = args[0]
    if (
        type_promotion is _DEFAULT
        and not torch.compiler.is_compiling()
        and all(type(x) is torch.Tensor and x.is_meta for x in args)
        and all(x.dtype == first.dtype and x.shape == first.shape for x in args)
        and all(x.is_contiguous() for x in args)
    ):
        return torch.empty_like(first)
    return _elementwise(*args, type_promotion=type_promotion)
