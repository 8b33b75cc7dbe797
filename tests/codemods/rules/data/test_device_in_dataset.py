"""Data sets whose tensors are on the device."""

from __future__ import annotations

import pytest

from ..lines import codes

HEAD = "from torch.utils.data import Dataset, TensorDataset\n"


@pytest.mark.parametrize(
    ("tensors", "found"),
    [
        ("torch.ones(8, 2).cuda(), torch.ones(8)", True),
        ("*[torch.ones(8).cuda()]", False),  # who knows
        ("torch.ones(8, 2), torch.ones(8)", False),
        ("x, y", False),
    ],
)
def test_a_data_set_of_tensors(tensors: str, found: bool) -> None:
    assert ("XLA405" in codes(f"{HEAD}d = TensorDataset({tensors})")) is found


HELD = (
    HEAD
    + """\
class Held({base}):
    def __init__(self, x):
        super().__init__()
        self.x = torch.tensor(x){place}

    def __getitem__(self, index):
        return {sample}
"""
)


@pytest.mark.parametrize(
    ("base", "place", "sample", "found"),
    [
        ("Dataset", ".cuda()", "self.x[index]", True),
        ("object", ".cuda()", "self.x[index], 1", True),
        ("Dataset", "", "self.x[index]", False),
        ("Dataset", ".cuda()", "self.x[0]", False),
        ("torch.nn.ModuleList", ".cuda()", "self.x[index]", False),
    ],
)
def test_a_data_set_that_holds_tensors(base: str, place: str, sample: str, found: bool) -> None:
    source = HELD.format(base=base, place=place, sample=sample)
    assert ("XLA405" in codes(source)) is found
