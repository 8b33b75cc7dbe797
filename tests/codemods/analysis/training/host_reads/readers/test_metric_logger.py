"""Meters by name that read the tensors which steps of other modules hand them: `metric_logger.update(loss=loss)`."""

from __future__ import annotations

import pytest

from xla_codemods.analysis.projects.project import Modules, Project
from xla_codemods.engine import Options, migrate

TRAIN = """
import torch
import torch.nn.functional as F
import utils

def train(model, loader, optimizer):
    device = torch.device("cuda")
    metric_logger = utils.MetricLogger()
    metric_logger.add_meter("lr", {meter})
    for x, y in metric_logger.log_every(loader, 10):
        loss = F.cross_entropy(model(x.to(device)), y.to(device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        metric_logger.update(loss=loss, lr=0.1)
    return {{k: meter.global_avg for k, meter in metric_logger.meters.items()}}
"""
UTILS = """
from collections import defaultdict, deque
import torch

class Smoothed:
    def __init__(self, window=20):
        self.recent = deque(maxlen=window)
        self.total, self.count = 0.0, 0

    def update(self, value, n=1):
        self.recent.append(value)
        self.count += n
        self.total += value * n

    @property
    def median(self):
        return torch.tensor(list(self.recent)).median().item()

    @property
    def global_avg(self):
        return self.total / self.count

    @property
    def value(self):
        return self.recent[-1]

    def __str__(self):
        return f"{self.median:.4f} {self.value:.4f} ({self.global_avg:.4f})"

class MetricLogger:
    def __init__(self):
        self.meters = {made}

    def update(self, **kwargs):
        for k, v in kwargs.items():
            if isinstance(v, torch.Tensor):
                v = v.item()
            {check}
            self.meters[k].update(v)

    def add_meter(self, name, meter):
        self.meters[name] = meter

    def __str__(self):
        return "  ".join(f"{name}: {meter}" for name, meter in self.meters.items())

    def log_every(self, loader, freq):
        for i, batch in enumerate(loader):
            yield batch
            if i % freq == 0:
                print(i, self)
"""


def _migrated(
    check: str = "assert isinstance(v, (float, int))",
    made: str = "defaultdict(Smoothed)",
    meter: str = "utils.Smoothed(1)",
) -> str:
    utils = UTILS.replace("{check}", check).replace("{made}", made)
    files = {"train.py": TRAIN.format(meter=meter).encode(), "utils.py": utils.encode()}
    modules = Modules(files)
    return migrate(
        files["utils.py"], Options(), "utils.py", Project(modules, "utils.py")
    ).data.decode()


@pytest.mark.parametrize(
    "check", ["assert isinstance(v, (float, int))", "if not isinstance(v, float): continue", "pass"]
)
def test_what_a_step_hands_over_is_read_later(check: str) -> None:
    assert "v = xla.item(v)" in _migrated(check)


@pytest.mark.parametrize(
    "change",
    [
        {"check": "if v > 3: raise ValueError"},
        {"made": "dict(lr=Other())"},
        {"made": "defaultdict(make)"},
    ],
)
def test_what_is_asked_for_or_kept_by_others_stays(change: dict[str, str]) -> None:
    assert "v = v.item()" in _migrated(**change)


@pytest.mark.parametrize(
    "line",
    ["metric_logger.update(loss=loss.item())", "metric_logger.update(loss=loss.item() * 2)"],
)
def test_a_meter_of_another_module_keeps_numbers(line: str) -> None:
    train = TRAIN.format(meter="utils.Smoothed(1)")
    train = train.replace("metric_logger.update(loss=loss, lr=0.1)", line)
    utils = UTILS.replace("{made}", "defaultdict(Smoothed)").replace("{check}", "pass")
    files = {"train.py": train.encode(), "utils.py": utils.encode()}
    done = migrate(files["train.py"], Options(), "train.py", Project(Modules(files), "train.py"))
    assert line.replace("loss.item()", "xla.item(loss)") in done.data.decode()
    assert not [finding for finding in done.left if finding.code == "XLA503"]


@pytest.mark.parametrize(
    "kept", ["self.meters[k].update(v)", "self.meters.setdefault(k, Smoothed()).update(v)"]
)
@pytest.mark.parametrize(
    "window", ["self.recent.append(value)", "self.recent = (self.recent + [value])[-20:]"]
)
def test_meters_that_are_made_when_they_are_needed(
    kept: str, window: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    utils = UTILS.replace("self.meters[k].update(v)", kept)
    monkeypatch.setitem(globals(), "UTILS", utils.replace("self.recent.append(value)", window))
    assert "v = xla.item(v)" in _migrated()
