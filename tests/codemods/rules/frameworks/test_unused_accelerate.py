"""Importing accelerate is not using it."""

from __future__ import annotations

from ...helpers import migrated

SCRIPT = """\
import torch
from accelerate import Accelerator
{line}

def train(model, get_batch, optimizer):
    for step in range(9):
        loss = model(get_batch().cuda())
        loss.backward()
        optimizer.step()
"""


def test_a_script_that_only_imports_it_is_marked() -> None:
    assert "xla.mark_step()" in migrated(SCRIPT.format(line=""))


def test_a_loop_over_a_loader_of_accelerates_is_not() -> None:
    source = SCRIPT.format(line="accelerator = Accelerator()")
    source = source.replace("range(9)", "accelerator.prepare(loader)")
    assert "mark_step" not in migrated(source)
