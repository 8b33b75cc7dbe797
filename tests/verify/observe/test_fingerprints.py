"""Norms, projections and movements of tensors, as precise as they are compared."""

from __future__ import annotations

import pytest
import torch

from xla_migrate.verify.observe.training import fingerprints

SHAPES = [(3,), (), (0,), (5, 7), (4096,), (4097,), (300, 300), (700, 900), (16, 8, 3, 3)]


def tensors(scale: float = 1.0) -> list[torch.Tensor]:
    chance = torch.Generator().manual_seed(1)
    return [torch.randn(shape, generator=chance) * scale for shape in SHAPES]


@pytest.mark.parametrize("scale", [1.0, 1e-12, 1e12])
def test_norms(scale: float) -> None:
    found = fingerprints.norms(tensors(scale))
    exact = [torch.linalg.vector_norm(t.double()) for t in tensors(scale)]
    for a, b in zip(found, exact, strict=True):
        assert a.item() == pytest.approx(b.item(), rel=1e-6)


def test_a_norm_of_many_numbers_keeps_its_digits() -> None:
    many = torch.full((30_000_001,), 0.1)
    assert fingerprints.norms([many])[0].item() == pytest.approx(0.1 * 30_000_001**0.5, rel=1e-6)


def test_on_xla_small_tensors_of_a_shape_are_computed_together() -> None:
    """The same numbers in the same order, from one computation for each shape."""
    many = [*tensors(), *tensors(2.0)]
    calls = []

    def squares(together: torch.Tensor) -> torch.Tensor:
        calls.append(len(together))
        return fingerprints._squares(together)

    found = fingerprints._by_shape(many, squares).sqrt()
    assert found.tolist() == pytest.approx(fingerprints.norms(many).tolist(), rel=1e-5)
    assert calls == [2, 2, 2, 2, 2, 2, 1, 1, 2, 1, 1]
    projected = fingerprints._by_shape(many, fingerprints._projected)
    one_by_one = fingerprints.weights(many)[len(many) :]
    assert projected.tolist() == pytest.approx(one_by_one.tolist(), rel=1e-4, abs=1e-4)


def test_norms_of_other_types_and_layouts() -> None:
    x = torch.randn(64, 96, 8, 8)
    exact = x.double().norm().item()
    views = [x.to(memory_format=torch.channels_last), x.transpose(0, 1), x.double()]
    for view in views:
        assert fingerprints.norms([view])[0].item() == pytest.approx(exact, rel=1e-6)
    assert fingerprints.norms([x.bfloat16()])[0].item() == pytest.approx(exact, rel=1e-2)
    assert fingerprints.norms([x[:, ::2]])[0].item() == pytest.approx(
        x[:, ::2].double().norm().item(), rel=1e-6
    )
    sparse = torch.eye(4).to_sparse()
    assert fingerprints.norms([sparse])[0].item() == pytest.approx(2.0)


def test_norms_of_what_is_not_a_number() -> None:
    x = torch.ones(10_000)
    x[5000] = float("nan")
    assert torch.isnan(fingerprints.norms([x])[0])
    x[5000] = float("inf")
    assert torch.isinf(fingerprints.norms([x])[0])


def test_movement_is_exact_for_small_tensors_and_estimated_for_large_ones() -> None:
    small, large = torch.randn(50, 60), torch.randn(1000, 999)
    before = fingerprints.copies([small, large])
    assert before is not None
    assert before.numel() - small.numel() < large.numel() / 4
    chance = torch.Generator().manual_seed(2)
    steps = [torch.randn(t.shape, generator=chance) * 1e-3 for t in (small, large)]
    after = [t + step for t, step in zip((small, large), steps, strict=True)]
    found = fingerprints.moved(after, before)
    assert found[0].item() == pytest.approx(steps[0].norm().item(), rel=1e-3)
    assert found[1].item() == pytest.approx(steps[1].norm().item(), rel=0.05)


def test_movement_of_a_few_columns_is_seen() -> None:
    large = torch.zeros(1024, 1024)
    before = fingerprints.copies([large])
    assert before is not None
    after = large.clone()
    after[:, 7] = 1.0
    assert fingerprints.moved([after], before)[0].item() == pytest.approx(32.0, rel=0.3)


def test_the_copy_is_a_copy() -> None:
    p = torch.zeros(1000, 1000)
    before = fingerprints.copies([p])
    assert before is not None
    p.add_(1)
    assert fingerprints.moved([p], before)[0].item() == pytest.approx(1000, rel=1e-3)


def test_projections_are_those_of_fixed_signs() -> None:
    x = torch.randn(40, 30)
    halves = fingerprints.weights([x])
    assert halves[1].item() == fingerprints.weights([x.clone()])[1].item()
    other = fingerprints.weights([x + 0.1 * torch.eye(40, 30)])
    assert other[1].item() != pytest.approx(halves[1].item(), rel=1e-4)


def test_complex_tensors_have_norms_and_projections() -> None:
    x = torch.complex(torch.full((20, 30), 3.0), torch.full((20, 30), 4.0))
    assert fingerprints.norms([x])[0].item() == pytest.approx(5 * 600**0.5, rel=1e-6)
    other = torch.complex(torch.full((20, 30), 3.0), torch.full((20, 30), 4.5))
    assert fingerprints.weights([x])[1].item() != fingerprints.weights([other])[1].item()


def test_biases_and_scales_are_not_weighed() -> None:
    model = torch.nn.Sequential(torch.nn.Conv2d(2, 3, 3), torch.nn.BatchNorm2d(3))
    assert [p.dim() for p in fingerprints.weighed(list(model.parameters()))] == [4]
