"""Singular values on XLA, as `patches.linear_algebra.batched_svd` computes them."""

from __future__ import annotations

import pytest
import torch

from ..test_processes import in_a_warm_process
from .computing import Case, assert_computed_on_the_device

SHAPES = [(5, 4, 3), (5, 3, 4), (3, 3, 3), (2, 5, 3, 3), (1, 2, 2), (4, 3)]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("full", [True, False])
def test_the_product_is_the_matrix(
    shape: tuple[int, ...], full: bool, device: torch.device
) -> None:
    x = torch.randn(*shape, generator=torch.Generator().manual_seed(0))
    expected = torch.linalg.svd(x, full_matrices=full)
    u, s, vh = torch.linalg.svd(x.to(device), full_matrices=full)
    assert [u.shape, s.shape, vh.shape] == [part.shape for part in expected]
    assert torch.allclose(s.cpu(), expected.S, atol=1e-4)
    count = s.shape[-1]
    product = u.cpu()[..., :count] * s.cpu().unsqueeze(-2) @ vh.cpu()[..., :count, :]
    assert torch.allclose(product, x, atol=1e-4)


CASES: dict[str, Case] = {
    "sums of singular values": lambda x: torch.linalg.svdvals(x).sum(-1),
    "nuclear norms": lambda x: torch.linalg.matrix_norm(x, "nuc"),
    "rotations": lambda x: (lambda found: found[0] @ found[2])(
        torch.linalg.svd(x, full_matrices=False)
    ),
    "pseudo-inverses": torch.linalg.pinv,
    "torch.svd": lambda x: (lambda found: found.U @ found.V.mT)(torch.svd(x)),
}


@pytest.mark.parametrize("name", CASES)
def test_values_and_gradients_are_torchs(name: str, device: torch.device) -> None:
    x = torch.randn(5, 4, 3, generator=torch.Generator().manual_seed(0))
    assert_computed_on_the_device(CASES[name], x, device, 1e-3)


def test_ranks_are_those_of_the_matrices(device: torch.device) -> None:
    x = torch.stack([torch.eye(3), torch.ones(3, 3), torch.zeros(3, 3), torch.eye(3)])
    assert torch.linalg.matrix_rank(x.to(device)).tolist() == [3, 1, 0, 3]


PROGRAM = """
import torch, torch_xla
print([tuple(part.shape) for part in torch.linalg.svd(torch.rand(5, 4, 3).to("xla"))])
"""


def test_fact_3_73_torch_xlas_batches_have_singular_values_of_one_matrix() -> None:
    done = in_a_warm_process("target", PROGRAM, PJRT_DEVICE="CPU")
    assert done.stdout.strip() == "[(5, 4, 4), (3,), (3, 5, 3)]"
