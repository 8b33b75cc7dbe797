"""Lengths of a packed sequence that stay on the host are no host reads; lengths that are moved there are."""

from __future__ import annotations

import pytest

from xla_codemods.analysis.inference.values import HOST, TENSOR, UNKNOWN
from xla_codemods.analysis.script import Script
from xla_codemods.engine import check
from xla_codemods.source import Source

from ....helpers import migrated

MODEL = """\
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence
from torch.utils.data import DataLoader
from data import Words, collate

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn, self.out = nn.GRU(8, 8), nn.Linear(8, 2)

    def forward(self, x, lengths):
        packed = pack_padded_sequence(x, LENGTHS, enforce_sorted=False)
        return self.out(self.rnn(packed)[1][-1])

device = torch.device("cuda")
model = Net().to(device)
optimizer = torch.optim.Adam(model.parameters())
loader = DataLoader(Words(), batch_size=8, collate_fn=collate, drop_last=True)
"""
STEP = """\
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x, GIVEN), y)
    loss.backward()
    optimizer.step()
"""
BY_KEY = 'for batch in loader:\n    x, y = batch["x"].to(device), batch["y"].to(device)\n'
BY_INDEX = "for x, lengths, y in loader:\n    x, y = x.to(device), y.to(device)\n"


def _reads(source: str) -> list[str]:
    return [f.message for f in check(source.encode()) if f.code == "XLA503"]


@pytest.mark.parametrize("lengths", ["lengths.cpu()", 'lengths=lengths.to("cpu")'])
@pytest.mark.parametrize(
    ("loop", "given", "host"),
    [
        (BY_INDEX, "lengths", "host=(1,)"),
        (BY_KEY, 'batch["lengths"]', 'host=("lengths",)'),
        (BY_KEY, 'batch.get("lengths")', 'host=("lengths",)'),
        (BY_KEY, 'lengths=batch["lengths"].long()', 'host=("lengths",)'),
        (BY_KEY + '    lengths = batch["lengths"]\n', "lengths", 'host=("lengths",)'),
        (BY_KEY.replace('["x"]', ".x").replace('["y"]', ".y"), "batch.lengths", '("lengths",)'),
    ],
)
def test_lengths_on_the_host_are_no_reads(lengths: str, loop: str, given: str, host: str) -> None:
    source = (MODEL + loop + STEP).replace("LENGTHS", lengths).replace("GIVEN", given)
    assert _reads(source) == []
    assert host in migrated(source)
    assert _reads(migrated(source)) == []


@pytest.mark.parametrize(
    "loop",
    [
        BY_INDEX + "    lengths = lengths.to(device)\n",
        BY_KEY + '    lengths = batch["lengths"].cuda()\n',
    ],
)
def test_lengths_that_are_moved_should_stay_on_the_host(loop: str) -> None:
    source = (MODEL + loop + STEP).replace("LENGTHS", "lengths.cpu()").replace("GIVEN", "lengths")
    for each in (source, migrated(source)):
        (message,) = _reads(each)
        assert "keep the lengths on the host" in message


def test_parts_on_the_host_may_be_texts() -> None:
    """Only what is called on a part says that it is a tensor; the other parts may be tuples of tensors."""
    source = """
import torch
from xla_migrate import runtime as xla

for batch in xla.MpDeviceLoader(loader, host=("id",)):
    print(batch["id"], batch["id"].long(), batch["x"])
"""
    script = Script(Source(source.encode()))
    ((call, _),) = script.index.calls_of("print")
    name, number, other = map(script.value, call.args)
    assert not name.has(TENSOR)
    assert number.has(TENSOR)
    assert number.has(HOST)
    assert other == UNKNOWN
