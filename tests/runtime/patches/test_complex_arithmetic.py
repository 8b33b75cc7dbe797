"""Quotients, absolute values, means and norms of complex numbers (facts 3.61, 3.68, 3.69), and infinite norms (3.70)."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch.nn import functional as F

from ..test_processes import in_a_warm_process
from .computing import Case, assert_computed_on_the_device, computed

SEED = torch.Generator().manual_seed(0)
PAIRS = torch.randn(3, 4, 2, generator=SEED)


def _complex(x: torch.Tensor) -> torch.Tensor:
    return torch.view_as_complex(x)


def _other(x: torch.Tensor) -> torch.Tensor:
    return torch.view_as_complex(x.flip(0).cos() + 1)


def _real(z: torch.Tensor) -> torch.Tensor:
    return torch.view_as_real(z)


CASES: dict[str, Case] = {
    "a quotient": lambda x: _real(_complex(x) / _other(x)),
    "by keyword": lambda x: _real(torch.div(input=_complex(x), other=3.0)),
    "of a real tensor by keyword": lambda x: _real((x[..., 0]).div(other=_other(x))),
    "by a number": lambda x: _real(_complex(x) / 3.0),
    "of a number": lambda x: _real(2.0 / _other(x)),
    "by a real tensor": lambda x: _real(_complex(x) / (x[..., 0].abs() + 1)),
    "of a real tensor": lambda x: _real(x[..., 0] / _other(x)),
    "in place": lambda x: _real((_complex(x) * 2).div_(_other(x))),
    "broadcast": lambda x: _real(_complex(x)[:1] / _other(x)),
    "addcdiv": lambda x: _real(torch.addcdiv(_complex(x), _complex(x), _other(x))),
    "a kernel of a state space": lambda x: (
        (_complex(x) * (torch.exp(_other(x)) - 1.0) / _other(x)).real * 2
    ),
    "abs": lambda x: _complex(x).abs(),
    "the abs of zero": lambda x: torch.absolute(_complex(x) * 0),
    "abs of a conjugate": lambda x: abs((_complex(x) - 1).conj()),
    "a mean": lambda x: _real(_complex(x).mean()),
    "a mean over a dimension": lambda x: _real(_complex(x).mean(1, keepdim=True)),
    "a norm": lambda x: _complex(x).norm(),
    "vector_norm": lambda x: torch.linalg.vector_norm(_complex(x), dim=1),
    "normalize": lambda x: _real(F.normalize(_complex(x), dim=1)),
    "tanh": lambda x: _real(torch.tanh(_complex(x))),
    "sigmoid": lambda x: _real(torch.sigmoid(_complex(x))),
    "sgn": lambda x: _real(torch.sgn(_complex(x))),
}


@pytest.mark.parametrize("name", CASES)
def test_complex_numbers_are_computed_as_on_the_cpu(name: str, device: torch.device) -> None:
    assert_computed_on_the_device(CASES[name], PAIRS, device)


def test_a_spectrogram_has_gradients(device: torch.device) -> None:
    def case(x: torch.Tensor) -> torch.Tensor:
        return torch.log1p(torch.fft.fft(_complex(x)).abs())

    torch.testing.assert_close(computed(case, PAIRS.to(device)), computed(case, PAIRS))


def test_a_gradient_of_a_gradient(device: torch.device) -> None:
    def penalty(on: Any) -> torch.Tensor:
        pair = PAIRS.to(on).requires_grad_()
        value = (_complex(pair) / _other(pair)).abs().pow(3).sum()
        (first,) = torch.autograd.grad(value, pair, create_graph=True)
        (second,) = torch.autograd.grad(first.pow(2).sum(), pair)
        return second.cpu()

    torch.testing.assert_close(penalty(device), penalty("cpu"), rtol=1e-4, atol=1e-4)


def test_real_tensors_are_left_to_torch(device: torch.device) -> None:
    x = torch.tensor([[-1.0, 2.0]], device=device)
    assert x.abs().tolist() == [[1.0, 2.0]]
    assert (x / 2).tolist() == [[-0.5, 1.0]]
    assert torch.div(x, 2, rounding_mode="floor").tolist() == [[-1.0, 1.0]]
    assert x.mean().item() == 0.5
    half = torch.tensor(3.0, dtype=torch.bfloat16, device=device)
    assert (half / 2).dtype == torch.bfloat16
    out = torch.empty(1, 2, device=device)
    assert torch.abs(x, out=out).tolist() == [[1.0, 2.0]]


def test_double_precision_keeps_the_imaginary_part(device: torch.device) -> None:
    z = torch.tensor([1 + 2j, 3 - 4j], dtype=torch.complex128)
    assert z.to(device).cpu().tolist() == z.tolist()
    assert z.to(device)[1].item() == 3 - 4j


NORMS: dict[str, Case] = {
    "norm": lambda x: torch.norm(x, math.inf),
    "the smallest": lambda x: x.norm(-math.inf),
    "over dimensions": lambda x: x.norm(math.inf, dim=1, keepdim=True),
    "normalize": lambda x: F.normalize(x, p=math.inf, dim=1),
    "pairwise_distance": lambda x: F.pairwise_distance(x, x.flip(0), p=math.inf),
    "of halves": lambda x: torch.norm(x.bfloat16(), math.inf),
}


@pytest.mark.parametrize("name", NORMS)
def test_infinite_norms(name: str, device: torch.device) -> None:
    values = torch.randn(3, 4, generator=SEED)
    found, expected = computed(NORMS[name], values.to(device)), computed(NORMS[name], values)
    torch.testing.assert_close(found, expected)


PROGRAM = """
import math, torch, torch_xla
device = torch_xla.device()
z = torch.tensor([1 + 2j, 3 - 4j])
print((z.to(device) / z.to(device)).dtype, (z.to(device) / 2).dtype, z.to(device).abs().dtype)
print(z.to(torch.complex128).to(device).cpu().imag.tolist())
print(torch.norm(torch.tensor([1.0, -5.0]).to(device), math.inf).item())
"""


@pytest.fixture(scope="module")
def torch_xlas() -> list[str]:
    """Return what the program prints without the runtime."""
    done = in_a_warm_process("target", PROGRAM, PJRT_DEVICE="CPU")
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_fact_3_61_torch_xlas_abs_is_complex(torch_xlas: list[str]) -> None:
    assert torch_xlas[0].split()[2] == "torch.complex64"


def test_fact_3_68_torch_xlas_quotients_are_real(torch_xlas: list[str]) -> None:
    assert torch_xlas[0].split()[:2] == ["torch.float32", "torch.float32"]


def test_fact_3_69_torch_xla_drops_imaginary_parts(torch_xlas: list[str]) -> None:
    assert torch_xlas[1] == "[0.0, 0.0]"


def test_fact_3_70_torch_xlas_infinite_norms_are_one(torch_xlas: list[str]) -> None:
    assert torch_xlas[2] == "1.0"
