"""Host reads are watched, and tensors stay what they are to torch's C code."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from xla_migrate import runtime as xla
from xla_migrate.verify.observe.device import reads
from xla_migrate.verify.observe.process.patching import Patches


@pytest.fixture
def watched() -> Iterator[None]:
    patches = Patches()
    reads.install(patches)
    yield
    patches.undo()


def _numbers_in_lists() -> None:
    """`torch.tensor([self.sum, self.count])` of a meter that has added up tensors."""
    total, weight = torch.tensor(3.0), torch.nn.Parameter(torch.tensor(2.0))
    assert torch.tensor([total, 4], dtype=torch.float32).tolist() == [3.0, 4.0]
    assert torch.tensor([[total, 4], [weight, 1]]).tolist() == [[3.0, 4.0], [2.0, 1.0]]
    assert torch.as_tensor([weight]).tolist() == [2.0]
    assert total.new_tensor([total]).tolist() == [3.0]


def test_numbers_in_lists(watched: None) -> None:
    _numbers_in_lists()


def test_tensors_are_indexed_and_walked_as_ever(watched: None) -> None:
    rows = torch.arange(6).view(3, 2)
    assert rows[1].tolist() == [2, 3]
    assert rows[rows > 3].tolist() == [4, 5]
    assert [row.tolist() for row in rows] == [[0, 1], [2, 3], [4, 5]]
    assert next(row.tolist() for row in reversed(rows)) == [4, 5]
    first, *_ = rows
    assert first.tolist() == [0, 1]
    assert torch.tensor([[1, 2], [3, 4]]).tolist() == [[1, 2], [3, 4]]
    rows[rows > 3] = 0
    assert rows.sum() == 6


def test_an_empty_tensor_has_nothing_to_read(watched: None) -> None:
    device = xla.xla_device()
    torch.empty(0, device=device).cpu()
    torch.empty(0, device=device).to("cpu")
    assert reads.take() == []
    torch.ones(1, device=device).cpu()
    assert sum(times for _, _, times in reads.take()) == 1


def test_undone() -> None:
    patches = Patches()
    reads.install(patches)
    patches.undo()
    _numbers_in_lists()
