"""``abs`` of complex numbers is real, and ``einsum`` of complex numbers has torch's gradients.

The fault: torch_xla says that the absolute value of a complex tensor is complex, and refuses gradients
through it, so that a spectrogram (``torch.stft(...).abs()``) cannot be trained on (fact 3.61). Its
gradients of ``einsum`` lack the conjugation, so Fourier layers get wrong gradients, silently (fact 3.62).

To see it: ``torch.fft.rfft(x).abs().dtype`` on both devices, and ``x.grad`` behind a complex ``einsum``.
It can go when these fail: test_fact_3_61_torch_xlas_abs_is_complex,
test_fact_3_62_torch_xlas_einsum_has_other_gradients.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence
from typing import Any

import torch
from torch import functional

from ..compiling.scripted import scripted_as
from ._versions import Versions

VERSIONS = Versions("torch_xla", "2.9", "2.10")

_abs, _einsum = torch.abs, torch.einsum
_MAGNITUDES: list[tuple[Any, str]] = [
    (torch, "abs"),
    (torch, "absolute"),
    (torch.Tensor, "abs"),
    (torch.Tensor, "absolute"),
    (torch.Tensor, "__abs__"),
]
PATCHED = [*_MAGNITUDES, (torch, "einsum"), (functional, "einsum")]


def apply() -> None:
    """Put ours in their place, for complex tensors of XLA."""
    for owner, name in _MAGNITUDES:
        torchs = getattr(owner, name)
        setattr(owner, name, scripted_as(torchs, _for_complex(torchs)))
    torch.einsum = functional.einsum = scripted_as(_einsum, einsum)


def _for_complex(torchs: Any) -> Any:
    @functools.wraps(torchs)
    def magnitude(input: Any, *args: Any, **kwargs: Any) -> Any:
        if args or kwargs or not _is_complex(input):
            return torchs(input, *args, **kwargs)
        return _Magnitude.apply(input)  # type: ignore[no-untyped-call]

    return magnitude


def _is_complex(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.device.type == "xla" and value.is_complex()


class _Magnitude(torch.autograd.Function):
    """The absolute value of complex numbers, with torch's gradient: none at zero."""

    @staticmethod
    def forward(ctx: Any, input: torch.Tensor) -> torch.Tensor:
        pair = torch.view_as_real(input)
        result = torch.hypot(pair[..., 0], pair[..., 1])
        ctx.save_for_backward(input, result)
        return result

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> torch.Tensor:
        input, result = ctx.saved_tensors
        size = torch.where(result == 0, torch.ones_like(result), result)
        return torch.view_as_complex(torch.view_as_real(input) * (grads[0] / size).unsqueeze(-1))


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
