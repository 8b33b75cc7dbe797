"""Operations of a traced script for which the target has no kernel: `xla-migrate compile --ops`."""

from __future__ import annotations

from pathlib import Path

import pytest

from xla_migrate.target.kernels.targets import parse

from .traced import traced

pytest.importorskip("torch_xla")
pytestmark = pytest.mark.e2e

PLANTED = """\
import torch
import torch.nn.functional as F
from torch import nn
from xla_migrate import runtime as xla

class Pool(nn.Module):
    def forward(self, x):
        return x - x.median(dim=-1, keepdim=True).values

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.ModuleDict({"pool": Pool(), "norm": nn.LayerNorm(8)})
        self.head = nn.Linear(8, 4)
        self.attention = nn.MultiheadAttention(8, 2)

    def forward(self, x):
        x = self.encoder["norm"](self.encoder["pool"](x))
        x, _ = self.attention(x, x, x)
        return self.head(F.dropout(x, 0.1))

device = xla.xla_device()
host = torch.randn(9).kthvalue(3)
net = Net().to(device)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
for step in range(3):
    x, y = torch.randn(6, 8).to(device), torch.randint(0, 4, (6,)).to(device)
    loss = F.cross_entropy(net(x), y) + F.binary_cross_entropy_with_logits(x, x.sigmoid())
    decay = torch.trace(net.head.weight @ net.head.weight.T)
    optimizer.zero_grad()
    (loss + decay).backward()
    torch._amp_foreach_non_finite_check_and_unscale_(
        [p.grad for p in net.parameters()], torch.zeros(1, device=device), torch.ones(1, device=device)
    )
    optimizer.step()
    xla.mark_step()
with torch.no_grad():
    out = net(x)
    smallest = out.kthvalue(1, dim=1).values
    print(F.adaptive_avg_pool1d(out, 3).sum().item(), torch.histc(out, 4).sum().item())
"""


def found(target: str, folder: Path) -> set[tuple[str, str, str, int]]:
    project = folder / "project"
    project.mkdir()
    (project / "train.py").write_text(PLANTED)
    found = traced(
        project / "train.py", [], folder / "work", execute=True, ops=parse(target), timeout=300
    )
    assert found.problem == "", found.output
    assert found.steps == 3
    assert found.kernels.operations
    assert not found.kernels.unknown
    return {(m.operation, m.place, m.module, m.count) for m in found.kernels.missing}


POOL = "encoder.pool (Pool)"


def test_four_planted_operations_that_torch_tpu_does_not_have(tmp_path: Path) -> None:
    """What is made of others, such as cross_entropy and attention, is no false alarm; nor is what runs on the host."""
    assert found("tpu", tmp_path) == {
        ("aten::median.dim_values", "train.py:8", POOL, 4),
        ("aten::trace", "train.py:29", "", 3),
        ("aten::_amp_foreach_non_finite_check_and_unscale_", "train.py:32", "", 3),
        ("aten::kthvalue.values", "train.py:39", "", 1),
    }


def test_what_torch_xla_runs_on_the_cpu(tmp_path: Path) -> None:
    """Pooling, which the runtime decomposes if torch_xla has no kernel, is none of it."""
    assert found("xla", tmp_path) == {
        ("aten::median.dim_values", "train.py:8", POOL, 4),
        ("aten::histc", "train.py:40", "", 1),
    }


def test_what_a_list_from_a_trainium_machine_names(tmp_path: Path) -> None:
    (tmp_path / "fallbacks.txt").write_text("aten::sigmoid\naten::kthvalue\n")
    assert found(f"neuron={tmp_path / 'fallbacks.txt'}", tmp_path) == {
        ("aten::sigmoid", "train.py:28", "", 3),
        ("aten::kthvalue", "train.py:39", "", 1),
    }
