"""What wrapped models are told that XLA does otherwise."""

from __future__ import annotations

import pytest

from xla_codemods.engine import check

HEAD = """
import torch
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook as powerSGD
from torch.distributed.algorithms.join import Join
from torch.nn.parallel import DistributedDataParallel as DDP
model = DDP(torch.nn.Linear(2, 2).cuda())
model(x).sum().backward()
"""


def left(line: str) -> list[str]:
    return [f.message for f in check((HEAD + line).encode()) if f.code == "XLA603" and not f.edits]


@pytest.mark.parametrize(
    "line",
    [
        "model.register_comm_hook(state, powerSGD.powerSGD_hook)",
        "model.register_comm_hook(state=None, hook=mine)",
    ],
)
def test_hooks_that_change_sums_are_left_with_what_to_do(line: str) -> None:
    (message,) = left(line)
    assert "between backward and step" in message


@pytest.mark.parametrize(
    "line", ["with model.join():\n    pass", "with Join([model, optimizer]):\n    pass"]
)
def test_uneven_numbers_of_steps_are_left_with_what_to_do(line: str) -> None:
    (message,) = left(line)
    assert "drop_last=True" in message


@pytest.mark.parametrize(
    "line",
    [
        "model.register_comm_hook(None, default_hooks.fp16_compress_hook)",
        'print(", ".join(names))',
        'with open("/".join(parts)) as file:\n    pass',
        "process.join()",
    ],
)
def test_what_does_no_harm_is_not_spoken_of(line: str) -> None:
    assert left(line) == []


def test_zero_is_left_with_what_to_do() -> None:
    """Its `consolidate_state_dict` loads to the device, which fails on XLA."""
    source = "from torch.distributed.optim import ZeroRedundancyOptimizer as Z\n"
    (message,) = left(
        f"{source}o = Z(model.parameters(), optimizer_class=torch.optim.Adam, lr=0.1)"
    )
    assert "optimizer_class" in message
