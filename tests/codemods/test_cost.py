"""The work of a check grows with the code: four times as much code costs about four times as many calls.

Calls of Python functions and built-in functions are counted, because processor time depends on the
machine. The shapes are those of a project that grows: functions in one file, modules that share
helpers, and scripts that call one trainer.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from types import FrameType

import pytest

from xla_codemods.analysis.projects.project import Modules, Project
from xla_codemods.engine import check

_MOST = 5.0  # times as many calls for 4 times as much code

_FUNCTION = '''

def train_{i}(model, loader, optimizer, scaler, epochs):
    """Epoch {i} on cuda."""
    device = torch.device("cuda:{d}" if torch.cuda.is_available() else "cpu")
    model = model.to(device)
    total = 0.0
    for step, (x, y) in enumerate(loader):
        x, y = x.cuda(non_blocking=True), y.to(device)
        with torch.cuda.amp.autocast():
            loss = F.cross_entropy(model(x.half()), y)
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        total += loss.item()
        if step % 50 == 0:
            print(f"{i} {{step}} {{loss.item():.4f}}")
    return total / max(1, step + 1)
'''


def _one_file(size: int) -> dict[str, bytes]:
    head = "import torch\nimport torch.nn.functional as F\n"
    functions = (_FUNCTION.format(i=i, d=i % 8) for i in range(size))
    return {"big.py": (head + "".join(functions)).encode()}


_SHAPES: dict[str, tuple[Callable[[int], dict[str, bytes]], int]] = {
    "one file of many functions": (_one_file, 15),
}


@pytest.mark.parametrize("shape", _SHAPES)
def test_four_times_the_code_costs_at_most_five_times_the_calls(shape: str) -> None:
    make, size = _SHAPES[shape]
    _calls(make(2))  # tables that are built once
    assert _calls(make(4 * size)) <= _MOST * _calls(make(size))


def _calls(files: Mapping[str, bytes]) -> int:
    """Return how many functions are called while all `files` are checked as one project."""
    count = 0

    def note(frame: FrameType, event: str, argument: object) -> None:
        nonlocal count
        count += event.endswith("call")

    modules = Modules(files)
    before = sys.getprofile()
    sys.setprofile(note)
    try:
        for path, data in files.items():
            check(data, path=path, project=Project(modules, path))
    finally:
        sys.setprofile(before)
    return count
