"""The work of a check grows with the code: four times as much code costs about four times as many calls.

Calls of Python functions and built-in functions are counted, because processor time depends on the
machine. The shapes are those of a project that grows: functions in one file, modules that share
helpers, and scripts that call one trainer.
"""

from __future__ import annotations

import cProfile
from collections.abc import Callable, Mapping

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


_HELPERS = """
import torch


def move(batch, device, half=False):
    out = [b.to(device, non_blocking=True) for b in batch]
    return [b.half() for b in out] if half else out


def adjacency(n, device=None):
    values = torch.ones(n, device=device)
    return torch.sparse_coo_tensor(torch.zeros(2, n), values, (n, n)).to(device)


class Meter:
    def __init__(self):
        self.total, self.count = 0.0, 0

    def update(self, value, n=1):
        self.total += value * n
        self.count += n

    @property
    def average(self):
        return self.total / max(1, self.count)


class Trainer:
    def __init__(self, model, optimizer, gpu=0):
        self.gpu, self.model, self.optimizer = gpu, model.cuda(gpu), optimizer
        self.meter = Meter()

    def step(self, batch):
        x, y = move(batch, self.gpu)
        loss = torch.nn.functional.mse_loss(self.model(x), y)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.meter.update(loss.item(), len(x))
        return loss
"""

_SCRIPT = """
import torch
from {home} import {names}


class Net{i}(torch.nn.Module):
    def forward(self, x, adj=None):
        return x if adj is None else torch.sparse.mm(adj, x)


def main(device="cuda"):
    net = Net{i}()
    optimizer = torch.optim.Adam(net.parameters())
    loader = torch.utils.data.DataLoader(list(range(64)), batch_size=4)
    {body}


if __name__ == "__main__":
    main()
"""

_SHARED = """net.to(device)
    adj = adjacency(8, device)
    meter = Meter()
    for batch in loader:
        x, y = move(batch, device)
        loss = (net(x, adj) - y).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        meter.update(loss.item())
    print(meter.average)"""

_TRAINED = """trainer = Trainer(net, optimizer, gpu=0)
    for batch in loader:
        loss = trainer.step(batch)
        print(f"{loss.item():.4f} {trainer.meter.average:.4f}")"""

_LAYER = """
import torch

from ..utils import adjacency, move


class Layer{i}(torch.nn.Module):
    def __init__(self, size, cached=False):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(size, size))
        self.cached, self._cache = cached, None

    def forward(self, x, edges, size=None):
        adj = self._cache if self._cache is not None else adjacency(len(x), device=x.device)
        if self.cached:
            self._cache = adj
        return torch.sparse.mm(adj, x @ self.weight)
"""


def _scripts(size: int, home: str, names: str, body: str) -> dict[str, bytes]:
    texts = (
        _SCRIPT.format(i=i, home=home, names=names.format(i=i), body=body) for i in range(size)
    )
    return {f"train_{i}.py": text.encode() for i, text in enumerate(texts)}


def _sharing(size: int) -> dict[str, bytes]:
    scripts = _scripts(size, "common", "Meter, adjacency, move", _SHARED)
    return {"common.py": _HELPERS.encode(), **scripts}


def _one_trainer(size: int) -> dict[str, bytes]:
    scripts = _scripts(size, "common", "Trainer", _TRAINED)
    return {"common.py": _HELPERS.encode(), **scripts}


def _package(size: int) -> dict[str, bytes]:
    conv = "".join(f"from .layer_{i} import Layer{i}\n" for i in range(size))
    layers = {f"layers/conv/layer_{i}.py": _LAYER.format(i=i).encode() for i in range(size)}
    return {
        "layers/__init__.py": b"from .conv import *\nfrom .utils import Meter, adjacency, move\n",
        "layers/utils.py": _HELPERS.encode(),
        "layers/conv/__init__.py": conv.encode(),
        **layers,
        **_scripts(size, "layers", "Layer{i}, Meter, adjacency, move", _SHARED),
    }


_CUT = """
import torch

def train(model, load, optimizer, width):
    for step in range(100):
        x = load(step)
        {changes}
        loss = model.cuda()(x[:, step : step + width]).mean()
        loss.backward()
        optimizer.step()
"""


def _changed(size: int) -> dict[str, bytes]:
    """Return a loop that changes a value of unknown type again and again, if a condition holds."""
    changes = (f"if step > {i}:\n            x = x.part_{i}(x)[{i}]" for i in range(size))
    return {"train.py": _CUT.format(changes="\n        ".join(changes)).encode()}


_SHAPES: dict[str, tuple[Callable[[int], dict[str, bytes]], int]] = {
    "one file of many functions": (_one_file, 15),
    "modules that share helpers": (_sharing, 10),
    "modules that call one trainer": (_one_trainer, 10),
    "a package and its examples": (_package, 8),
    "a value that changes": (_changed, 3),
}


@pytest.mark.parametrize("shape", _SHAPES)
def test_four_times_the_code_costs_at_most_five_times_the_calls(shape: str) -> None:
    make, size = _SHAPES[shape]
    _calls(make(2))  # tables that are built once
    assert _calls(make(4 * size)) <= _MOST * _calls(make(size))


def _calls(files: Mapping[str, bytes]) -> int:
    """Return how many functions are called while all `files` are checked as one project."""
    modules = Modules(files)
    profile = cProfile.Profile()
    with profile:
        for path, data in files.items():
            check(data, path=path, project=Project(modules, path))
    return sum(entry.callcount for entry in profile.getstats())
