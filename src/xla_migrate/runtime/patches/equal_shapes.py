"""Operations in place compute the shape of their result only if the operands' shapes differ.

The fault: before each operation in place on an XLA tensor, torch computes the type and strides of its result in Python,
on the meta device. An ``addcdiv_`` then takes six times as long on the host, and Adam calls one for each parameter. A
``leaky_relu_``, ``clamp_`` or ``sigmoid_`` of a forward pass takes several hundred times as long. If all operands have the
tensor's shape and type, or are numbers, the result is the tensor itself, and nothing needs to be computed.

To see it: time ``x.addcdiv_(y, z)`` on the device with and without it.
It can go when this fails: test_torch_works_out_the_results_of_equal_operands.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch._decomp import global_decomposition_table

from ._versions import Versions

VERSIONS = Versions("torch", "2.9", "2.10")

# What torch does not say to be computed element by element, and is.
UNTAGGED = frozenset({"aten::leaky_relu", "aten::hardswish"})
_META = torch._C.DispatchKey.Meta
_NUMBERS = (int, float, type(None))
_kernels: Any = None  # lives as long as they do


def apply() -> None:
    """Let equal shapes pass."""
    global _kernels
    _kernels = torch.library.Library("aten", "IMPL", "Meta")  # type: ignore[no-untyped-call]
    for operation in computed_in_place():
        kernel = _unless_equal(operation.py_kernels[_META])
        _kernels.impl(operation, kernel, allow_override=True)


def computed_in_place() -> Iterator[Any]:
    """The operations of torch that change their first operand element by element, and work out their result in Python."""
    table: Any = global_decomposition_table
    for operation in {**table["pre_autograd"], **table["post_autograd"], **table["meta"]}:
        name, _, overload = operation.name().partition(".")
        if not (name.startswith("aten::") and name.endswith("_")) or name.endswith("__"):
            continue
        if torch._C._dispatch_has_kernel_for_dispatch_key(
            operation.name(), "CompositeImplicitAutograd"
        ):
            continue
        if _is_pointwise(operation, name[:-1], overload):
            yield operation


def _is_pointwise(operation: Any, name: str, overload: str) -> bool:
    if name in UNTAGGED or torch.Tag.pointwise in operation.tags:
        return True
    new = getattr(torch.ops.aten, name.partition("::")[2], None)  # the one that makes a new tensor
    known = () if new is None else new.overloads()
    return any(torch.Tag.pointwise in getattr(new, each).tags for each in known)


def _unless_equal(worked_out: Callable[..., Any]) -> Callable[..., Any]:
    def result(first: Any, *others: Any, **named: Any) -> Any:
        if _fit(first, (*others, *named.values())):
            return first
        return worked_out(first, *others, **named)

    return result


def _fit(first: Any, others: tuple[Any, ...]) -> bool:
    """True if `first` is of floats, and the others are of its shape and type, or numbers: of plain tensors alone, not while compiling."""
    if type(first) is not torch.Tensor or not first.dtype.is_floating_point:
        return False
    shape, dtype = first.shape, first.dtype
    for other in others:
        if type(other) is torch.Tensor:
            if other.dtype is dtype and other.shape == shape:
                continue
            if other.dim() or other.is_complex():
                return False
        elif type(other) not in _NUMBERS:
            return False
    return True
