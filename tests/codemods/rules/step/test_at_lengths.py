"""Slices at the length of each sample compile again for each set of lengths."""

from __future__ import annotations

import pytest

from ...helpers import findings

SOURCE = """import torch
from torch import nn

class Net(nn.Module):
    def forward(self, x, lengths, others):
        mask = torch.zeros(x.size(), device=x.device)
        {loop}:
            {line}
        return x * mask

net = Net().cuda()
optimizer = torch.optim.SGD(net.parameters(), 0.1)
for x, lengths, others in batches:
    loss = net(x.cuda(), lengths, others).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("loop", "line", "code"),
    [
        ("for i, n in enumerate(lengths)", "mask[i, n:] = 1", "XLA503"),  # it may be on the device
        ("for i, n in enumerate(lengths.tolist())", "mask[i].narrow(0, n, 4).fill_(1)", "XLA506"),
        ("for row, n in zip(mask, lengths)", "row[:int(n)] = 1", "XLA506"),
        ("for i, (row, n) in enumerate(zip(mask, lengths))", "x = mask[i, :n.item()]", "XLA506"),
        ("for i in range(x.size(0))", "mask[i, lengths[i]:] = 1", "XLA506"),
        ("for i, n in enumerate(others)", "mask[i, n.item():] = 1", ""),
        ("for i, n in enumerate(lengths)", "mask[i, 1:] = 1", ""),
        ("for i, n in enumerate(lengths)", "names = self.names[:n]", ""),
    ],
)
def test_slices_at_lengths(loop: str, line: str, code: str) -> None:
    found = [code for _, code in findings(SOURCE.format(loop=loop, line=line))]
    assert code in found if code else "XLA506" not in found


EVALUATED = """import torch

@torch.no_grad()
def evaluate(net, batches, show):
    net.cuda().eval()
    for x, lengths in batches:
        out = net(x.cuda()).softmax(-1){moved}
        for i in range(len(out)):
            show(out[i, : lengths[i]])

def train(net, batches, optimizer):
    for x, _ in batches:
        net(x.cuda()).sum().backward()
        optimizer.step()
"""


@pytest.mark.parametrize(("moved", "lines"), [("", [9]), (".cpu()", [])])
def test_slices_at_lengths_in_an_evaluation(moved: str, lines: list[int]) -> None:
    found = findings(EVALUATED.format(moved=moved))
    assert [line for line, code in found if code == "XLA506"] == lines
