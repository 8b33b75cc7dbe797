"""Memory that XLA tensors do not have."""

from __future__ import annotations

import os
import subprocess

import pytest

from .... import warm
from ..lines import codes


@pytest.mark.parametrize(
    ("lines", "found"),
    [
        ("x = torch.ones(1).cuda()\nfor y in z:\n    x.resize_(y.size()).copy_(y)", True),
        ("x = torch.ones(1).cuda()\ndef step(y):\n    x.resize_as_(y).copy_(y)", True),
        (
            "x = torch.ones(1)\nif torch.cuda.is_available():\n    x = x.cuda()\nfor y in z:\n    x.resize_(2)",
            True,
        ),
        ("x = torch.ones(1).cuda()\nx.data.resize_(2)", True),  # fails on XLA: a view grows
        (
            "def pad(b, n):\n    x = torch.tensor(b).cuda()\n    return x.resize_(n)",
            False,
        ),  # had one size only
        ("for b in z:\n    x = torch.tensor(b).cuda()\n    x.resize_(8)", False),
        ("x = torch.ones(1)\nfor y in z:\n    x.resize_(y.size())", False),  # on the host
        ("for y in z:\n    image.resize_(y)", False),  # who knows
    ],
)
def test_tensors_that_are_resized_in_place(lines: str, found: bool) -> None:
    assert ("XLA515" in codes(lines)) is found


PROGRAM = """
import torch, torch_xla
small, large = (torch.ones(n, device=torch_xla.device()) for n in (2, 6))
x, y = (torch.arange(6.0).to(small.device) for _ in range(2))
x.resize_as_(small), y.resize_(2)
torch_xla.sync()
print(x.resize_as_(large).tolist())
try:
    y.resize_(6).tolist()
except RuntimeError:
    print("fails")
"""


def test_fact_3_66_what_was_made_smaller_does_not_grow_again() -> None:
    done = subprocess.run(
        [warm.python(*warm.TORCH_XLA), "-c", PROGRAM],
        env={**os.environ, "PJRT_DEVICE": "CPU"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.stdout.split("\n")[:2] == [str([0.0, 1.0, 0.0, 0.0, 0.0, 0.0]), "fails"]
