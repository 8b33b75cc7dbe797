"""`istft`: where it is found, and what it does."""

from __future__ import annotations

import os
import subprocess

import pytest

from .... import warm
from ..lines import codes

HEAD = "import torch, librosa\nx = net(torch.randn(2).cuda())\n"


@pytest.mark.parametrize(
    "source",
    [
        "torch.istft(x, 256)",
        "torch.istft(input=x, n_fft=256)",
        "x.istft(256, window=w)",
        "net(x).istft(256)",
        "def forward(self, s):\n    return torch.istft(s, 256)",
        "if mps:\n    x = x.cpu()\ntorch.istft(x, 256)",
    ],
)
def test_is_found(source: str) -> None:
    assert "XLA917" in codes(HEAD + source)


@pytest.mark.parametrize(
    "source",
    [
        "torch.istft(x.cpu(), 256)",
        "x.cpu().istft(256)",
        "y = net(x).cpu()\ntorch.istft(y, 256)",
        "librosa.istft(x)",
        "torch.stft(x, 256, return_complex=True)",
        "class A:\n    def istft(self, y): return y\nA().istft(x)",
        "class B:\n    def f(self, y): return self.istft(y)",
    ],
)
def test_others_are_fine(source: str) -> None:
    assert "XLA917" not in codes(HEAD + source)


PROGRAM = """
import torch, torch_xla
x = torch.randn(2, 2000, device=torch_xla.device())
window = torch.hann_window(256, device=x.device)
spectrum = torch.stft(x, 256, window=window, return_complex=True)
back = torch.istft(spectrum.cpu(), 256, window=window.cpu())
print("on the CPU", (back - x.cpu()[:, : back.shape[1]]).abs().max() < 1e-4, flush=True)
torch.istft(spectrum, 256, window=window)
print("not reached")
"""


def test_fact_3_63_istft_ends_the_process() -> None:
    done = subprocess.run(
        [warm.python(*warm.TORCH_XLA), "-c", PROGRAM],
        env={**os.environ, "PJRT_DEVICE": "CPU"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.stdout == "on the CPU tensor(True)\n"
    assert done.returncode < 0
    assert "Check failed" in done.stderr
