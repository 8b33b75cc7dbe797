"""Quotients and means of complex numbers are complex, and ``einsum`` of them has torch's gradients.

The fault: torch_xla says that the quotient of a complex tensor and a complex tensor or a number is
real. The imaginary part is lost, silently, as soon as the quotient is computed, and gradients behind
it are wrong (fact 3.68). Means raise an exception. The gradients of ``einsum`` lack the conjugation,
so Fourier layers get wrong gradients, silently (fact 3.62).

To see it: ``(z / 2).dtype`` of a complex tensor, and ``x.grad`` behind a complex ``einsum``.
It can go when these fail: test_fact_3_62_torch_xlas_einsum_has_other_gradients,
test_fact_3_68_torch_xlas_quotients_are_real.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import functional

from ..compiling.scripted import scripted_as
from ._versions import Versions

VERSIONS = Versions("torch_xla", "2.9", "2.10")

_einsum = torch.einsum
_QUOTIENTS: list[tuple[Any, str]] = [
    *((torch, name) for name in ("div", "divide", "true_divide")),
    *((torch.Tensor, name) for name in ("div", "divide", "true_divide", "__truediv__")),
]
_IN_PLACE: list[tuple[Any, str]] = [
    (torch.Tensor, name) for name in ("div_", "divide_", "true_divide_", "__itruediv__")
]
_SUMS: list[tuple[Any, str]] = [(torch, "addcdiv"), (torch.Tensor, "addcdiv")]
_MEANS: list[tuple[Any, str]] = [(torch, "mean"), (torch.Tensor, "mean")]
_REFUSED = frozenset({"axis", "out", "rounding_mode"})  # left to torch_xla
PATCHED = [*_QUOTIENTS, *_IN_PLACE, *_SUMS, *_MEANS, (torch, "einsum"), (functional, "einsum")]


def apply() -> None:
    """Put ours in their place, for complex tensors of XLA."""
    ours: dict[tuple[Any, str], Callable[..., Any]] = {
        **dict.fromkeys(_SUMS, _sum),
        **dict.fromkeys(_QUOTIENTS, _quotient),
        **dict.fromkeys(_IN_PLACE, _divided),
        **dict.fromkeys(_MEANS, _mean),
    }
    for (owner, name), made in ours.items():
        torchs = getattr(owner, name)
        setattr(owner, name, scripted_as(torchs, _for_complex(torchs, made)))
    torch.einsum = functional.einsum = scripted_as(_einsum, einsum)


def _for_complex(torchs: Any, ours: Callable[..., Any]) -> Any:
    @functools.wraps(torchs)
    def function(*args: Any, **kwargs: Any) -> Any:
        if any(map(_is_complex, (*args, *kwargs.values()))) and _REFUSED.isdisjoint(kwargs):
            return ours(*args, **kwargs)
        return torchs(*args, **kwargs)

    return function


def _quotient(input: Any, other: Any, **kwargs: Any) -> Any:
    return input * _reciprocal(other)


def _divided(input: Any, other: Any, **kwargs: Any) -> Any:
    return input.mul_(_reciprocal(other))


def _sum(input: Any, tensor1: Any, tensor2: Any, *, value: Any = 1) -> Any:
    return input + tensor1 * tensor2.reciprocal() * value


def _reciprocal(other: Any) -> Any:
    return other.reciprocal() if isinstance(other, torch.Tensor) else 1 / other


def _mean(
    input: torch.Tensor, dim: int | Sequence[int] = (), keepdim: bool = False, **kwargs: Any
) -> torch.Tensor:
    over = [dim] if isinstance(dim, int) else list(dim or range(input.dim()))
    count = math.prod(input.shape[place] for place in over)
    return input.sum(over, keepdim, **kwargs) * (1 / count)


def _is_complex(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.device.type == "xla" and value.is_complex()


@functools.wraps(_einsum)
def einsum(*args: Any) -> torch.Tensor:
    """``torch.einsum``, for complex tensors of XLA by real and imaginary parts."""
    equation, *operands = args
    if len(operands) == 1 and isinstance(operands[0], (list, tuple)):
        operands = list(operands[0])
    if not isinstance(equation, str) or not all(_is_complex(operand) for operand in operands):
        return _einsum(*args)
    return _by_parts(equation, operands)


def _by_parts(equation: str, operands: Sequence[torch.Tensor]) -> torch.Tensor:
    """The sum over all choices of a part of each operand: i * i is -1."""
    parts = [torch.view_as_real(operand.resolve_conj()).unbind(-1) for operand in operands]
    real: list[torch.Tensor] = []
    imaginary: list[torch.Tensor] = []
    for choice in itertools.product((0, 1), repeat=len(parts)):
        value = _einsum(equation, *(part[place] for part, place in zip(parts, choice, strict=True)))
        turns = sum(choice) % 4
        (imaginary if turns % 2 else real).append(-value if turns > 1 else value)
    return torch.view_as_complex(torch.stack([_total(real), _total(imaginary)], dim=-1))


def _total(values: list[torch.Tensor]) -> torch.Tensor:
    return functools.reduce(torch.add, values)
