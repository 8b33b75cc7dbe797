"""Data sets whose tensors are on the device."""

from __future__ import annotations

import pytest

from ...helpers import migrated
from ..lines import codes

HEAD = "from torch.utils.data import Dataset, TensorDataset\n"


@pytest.mark.parametrize(
    ("tensors", "found"),
    [
        ("torch.ones(8, 2).cuda(), torch.ones(8)", True),
        ("*[torch.ones(8).cuda()]", True),
        ("*tensors", False),  # who knows
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


COLLATED = """
import torch
from torch.utils.data import DataLoader

def collate(samples):
{body}

def train(model, optimizer, data, device):
    for batch in DataLoader(data, batch_size=8, collate_fn=collate):
        optimizer.zero_grad()
        model(batch).backward()
        optimizer.step()
"""


@pytest.mark.parametrize(
    ("body", "taken"),
    [
        ("    return torch.stack(samples).to(device)", True),
        ("    x, y = torch.stack(samples), 1\n    return x.to(device), y.to(device)", True),
        ("    x = torch.stack(samples).to(device)\n    y = x\n    return dict(x=x, y=y)", True),
        (
            "    b = {}\n    for k in samples:\n        b[k] = samples[k].to(device)\n    return b",
            True,
        ),
        (
            "    xs = []\n    for x in samples:\n        xs.append(x.to(device))\n    return xs",
            True,
        ),
        ("    return {k: torch.stack(v).to(device) for k, v in samples}", True),
        # A part stays on the host, where the loop may need it: `lengths.numpy()`.
        ("    x, n = zip(*samples)\n    return torch.stack(x).to(device), torch.tensor(n)", False),
        ("    b = join(samples)\n    b['x'] = b['x'].to(device)\n    return b", False),
        ("    x = torch.stack(samples)\n    return {'x': x.to(device), **rest(samples)}", False),
        ("    x = y\n    y = x\n    return x.to(device), y", False),
    ],
)
def test_a_device_loader_takes_over_where_all_of_a_batch_is_moved(body: str, taken: bool) -> None:
    source = migrated(COLLATED.format(body=body))
    assert ("MpDeviceLoader" in source) is taken
    assert (".to(device)" not in source) is taken
