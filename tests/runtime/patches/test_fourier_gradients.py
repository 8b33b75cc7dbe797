"""Gradients of Fourier transforms, as `patches.operations.fourier_gradients` computes them."""

from __future__ import annotations

import pytest
import torch

from xla_migrate.runtime.patches.operations import fourier_gradients

from ..test_processes import in_a_warm_process
from .computing import Case, computed


def _silenced(x: torch.Tensor) -> torch.Tensor:
    spectrum = torch.fft.rfft(x)
    spectrum[:, 0] = 0
    spectrum[:, 1:3] *= 2
    return torch.fft.irfft(spectrum)


def _masked(x: torch.Tensor) -> torch.Tensor:
    window = torch.hann_window(8, device=x.device)
    spectrum = torch.stft(x, 8, 4, window=window, return_complex=True)
    return torch.istft(spectrum * spectrum.abs().sigmoid(), 8, 4, window=window, length=x.size(1))


CASES: dict[str, Case] = {
    "irfft of rfft": lambda x: torch.fft.irfft(torch.fft.rfft(x)),
    "another length": lambda x: torch.fft.irfft(torch.fft.rfft(x, n=15), n=12),
    "two dimensions": lambda x: torch.fft.irfft2(torch.fft.rfft2(x, norm="ortho")),
    "one of several dimensions": lambda x: torch.fft.irfft(torch.fft.rfft(x, dim=0), n=2, dim=0),
    "ihfft": lambda x: torch.fft.hfft(torch.fft.ihfft(x)),
    "all of the spectrum": lambda x: torch.fft.fft(x).real,
    "changes in place": _silenced,
    "istft of stft": _masked,
}


@pytest.fixture
def signal() -> torch.Tensor:
    return torch.randn(2, 16, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("name", CASES)
def test_they_have_gradients(name: str, signal: torch.Tensor, device: torch.device) -> None:
    found, expected = computed(CASES[name], signal.to(device)), computed(CASES[name], signal)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)


def test_they_have_second_gradients(signal: torch.Tensor, device: torch.device) -> None:
    def case(x: torch.Tensor) -> torch.Tensor:
        energy = torch.view_as_real(torch.fft.rfft(x)).pow(3).sum()
        (gradient,) = torch.autograd.grad(energy, x, create_graph=True)
        return gradient

    found, expected = computed(case, signal.to(device)), computed(case, signal)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)


def test_without_gradients(signal: torch.Tensor, device: torch.device) -> None:
    for mode in (torch.no_grad, torch.inference_mode):
        with mode():
            found = torch.fft.irfft(torch.fft.rfft(signal.to(device))).cpu()
        torch.testing.assert_close(found, signal, rtol=1e-5, atol=1e-5)


PROGRAM = """
import torch, torch_xla
x = torch.ones(2, 16, device=torch_xla.device(), requires_grad=True)
torch.fft.irfft(torch.fft.rfft(x)).sum().backward()
"""


def test_torch_xla_raises_an_error() -> None:
    done = in_a_warm_process("target", PROGRAM, PJRT_DEVICE="CPU")
    assert "The size of tensor a (16) must match the size of tensor b (9)" in done.stderr
    assert fourier_gradients.VERSIONS.met()
