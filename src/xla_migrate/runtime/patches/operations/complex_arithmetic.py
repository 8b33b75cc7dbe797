"""Absolute values and norms of complex numbers are real, and gradients of tanh and sigmoid are torch's.

The fault: torch_xla says that the absolute value of a complex tensor is complex, and refuses
gradients through it, so that a spectrogram (``torch.stft(...).abs()``) cannot be trained on (fact
3.61). The gradients of tanh and sigmoid lack the conjugation.

To see it: ``torch.fft.rfft(x).abs().dtype`` on both devices.
It can go when this fails: test_fact_3_61_torch_xlas_abs_is_complex.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from .._versions import Versions
from ._infinite_norms import NORMS
from ._kernels import original, put

VERSIONS = Versions("torch_xla", "2.9", "2.10")

Kernel = Callable[..., Any]


def apply() -> None:
    """Put kernels before torch_xla's."""
    ours: dict[str, Callable[[Kernel], Kernel]] = {
        "abs": _real_or_magnitude,
        "sigmoid_backward": _conjugated,
        "tanh_backward": _conjugated,
    }
    kernels = {name: made(original(name)) for name, made in ours.items()}
    put(__name__, kernels, "XLA", with_keyset=True)


def _real_or_magnitude(theirs: Kernel) -> Kernel:
    def kernel(keys: Any, x: torch.Tensor) -> Any:
        return torch.hypot(*_parts(x)) if x.is_complex() else theirs(keys, x)

    return kernel


def _parts(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    real, imaginary = torch.ops.aten.view_as_real_copy.default(x).unbind(-1)
    return real, imaginary


def _conjugated(theirs: Kernel) -> Kernel:
    def kernel(keys: Any, gradient: torch.Tensor, output: torch.Tensor) -> Any:
        if output.is_complex():
            real, imaginary = _parts(output)
            output = real - imaginary * 1j
        return theirs(keys, gradient, output)

    return kernel


def _of_magnitudes(theirs: Kernel) -> Kernel:
    def kernel(keys: Any, x: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        return theirs(keys, x.abs() if x.is_complex() else x, *args, **kwargs)

    return kernel


# What `half_sums`, which replaces these kernels, makes of those that it calls.
REDUCTIONS = dict.fromkeys((*NORMS, "linalg_vector_norm"), _of_magnitudes)
