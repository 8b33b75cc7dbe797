"""Real views of complex numbers that are permuted (fact 3.63)."""

from __future__ import annotations

import pytest
import torch

from xla_migrate.runtime.patches.operations import complex_views

from ..test_processes import in_a_warm_process
from .computing import Case, computed

CASES: dict[str, Case] = {
    "a permuted view": lambda x: torch.view_as_real(torch.view_as_complex(x) * 2).permute(0, 3, 1, 2),
    "a transposed view": lambda x: torch.view_as_real(torch.view_as_complex(x) * 2).transpose(1, 2),
    "the gradient of a complex view of a permuted tensor": lambda x: torch.view_as_real(
        torch.view_as_complex(x.permute(0, 2, 1, 3).contiguous()) * 2
    ),
    "unbind": lambda x: torch.stack(torch.view_as_real(torch.view_as_complex(x)).transpose(0, 1).unbind(-1)),
    "istft": lambda x: torch.istft(torch.view_as_complex(x), 8, window=torch.ones(8, device=x.device)),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_views_are_torchs(name: str, device: torch.device) -> None:
    x = torch.randn(2, 5, 6, 2, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(computed(CASES[name], x.to(device)), computed(CASES[name], x))


def test_signs_of_zeros_stay(device: torch.device) -> None:
    z = torch.complex(torch.tensor([0.0, -0.0]), torch.tensor([-0.0, 0.0])).to(device)
    assert torch.view_as_real(z).cpu().signbit().tolist() == [[False, True], [True, False]]


PROGRAM = """
import torch, torch_xla
z = torch.view_as_complex(torch.randn(2, 3, 4, 2)).to(torch_xla.device())
print(torch.view_as_real(z).cpu().shape, flush=True)
torch.view_as_real(z).permute(0, 2, 1, 3)
print("not reached")
"""


def test_fact_3_63_permuting_ends_the_process() -> None:
    done = in_a_warm_process("target", PROGRAM, PJRT_DEVICE="CPU")
    assert done.stdout == "torch.Size([2, 3, 4, 2])\n"
    assert done.returncode < 0
    assert "Check failed" in done.stderr
    assert complex_views.VERSIONS.met()
