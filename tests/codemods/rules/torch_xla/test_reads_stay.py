"""What a person reads in a loop for torch_xla stays where it is: launches stay."""

from __future__ import annotations

import pytest

from xla_codemods.engine import Options, migrate

SCRIPT = """import torch
import torch_xla
import torch_xla.core.xla_model as xm

device = torch_xla.device()
model = torch.nn.Linear(4, 2).to(device)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
total = 0.0
for step in range(9):
    with torch_xla.step():
        loss = model(torch.ones(8, 4).to(device)).sum()
        loss.backward()
        xm.optimizer_step(opt)
    READ
print(total)
"""


@pytest.mark.parametrize(
    "read",
    ["print(loss.item())", "total += loss.item()", 'print(f"{step} {loss.item():.3f}")'],
)
def test_reads_stay(read: str) -> None:
    options = Options(origin="torch_xla")
    after = migrate(SCRIPT.replace("READ", read).encode(), options, "train.py").data.decode()
    assert "torch_xla." not in after
    assert f"    {read}\n" in after
    assert "mark_step()" not in after
    later = migrate(after.encode(), Options(), "train.py").data.decode()
    assert f"    {read}\n" not in later
