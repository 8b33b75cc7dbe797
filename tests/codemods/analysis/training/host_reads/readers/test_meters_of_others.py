"""Meters of other modules that are asked by methods for what they hold."""

from __future__ import annotations

import textwrap

import pytest

from xla_codemods.analysis.projects.project import Modules, Project
from xla_codemods.engine import Options, migrate

TRAIN = """
import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader
from tqdm import tqdm
from utils import Averager

{first}
def train(model, loader: DataLoader, optimizer, device, log):
    average = Averager()
    bar = tqdm(loader)
    for step, (x, y) in enumerate(bar):
        x, y = x.to(device), y.to(device)
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        {line}
    {last}

device = torch.device("cuda")
"""
UTILS = """
class Averager:
    def __init__(self):
        self.n = self.v = 0

    def add(self, x, n=1):
        self.v = (self.v * self.n + x * n) / (self.n + n)
        self.n += n

    def item(self):
        return self.v

    def __call__(self):
        return self.v / 1.0

    @property
    def value(self):
        return self.v

    def __str__(self):
        return f"{{self.item():.4f}}"

    {more}
"""
ADD = "average.add(loss.item())"
READ = "average.add(xla.item(loss))"
CHECK = "def check(self):\n        if self.v > 3:\n            raise ValueError"


def _migrated(
    line: str = ADD,
    last: str = "return average.item()",
    more: str = "",
    first: str = "",
    third: str = "",
) -> str:
    files = {
        "train.py": TRAIN.format(line=line.replace("\n", "\n        "), last=last, first=first),
        "utils.py": UTILS.format(more=more),
        "third.py": third,
    }
    modules = Modules({name: textwrap.dedent(text).encode() for name, text in files.items()})
    source = modules.files["train.py"]
    return migrate(source, Options(), "train.py", Project(modules, "train.py")).data.decode()


@pytest.mark.parametrize(
    ("line", "last", "after"),
    [
        (ADD, "return average.item()", [READ, "return xla.arrived(average.item())"]),
        (ADD, "average = average.item()\n    log(average)", [READ, "average = xla.arrived(average.item())", "log(average)"]),
        (ADD, "log(average.v)", [READ, "log(xla.arrived(average.v))"]),
        (ADD, "log(average.value)", [READ, "log(xla.arrived(average.value))"]),
        (ADD, "print(average)", [READ, "    print(average)"]),
        (ADD, "log(average)", [READ, "    log(average)"]),
        (ADD, "log(average.item)", [READ, "    log(average.item)"]),
        (ADD, "average.check()\n    return average.item()", [READ, "return xla.arrived(average.item())"]),
        ("average.add(n=len(x), x=loss.item())", "return average()", ["average.add(n=len(x), x=xla.item(loss))", "return xla.arrived(average())"]),
        ("average.add(loss.item(), len(x))", "print(f'{average.item():.3f}')", ["average.add(xla.item(loss), len(x))", "print(f'{average.item():.3f}')"]),
        # shown in every step
        (ADD + "\nbar.set_postfix(loss='{:.3f}'.format(average()))", "return average.v", [READ, "xla.later(lambda average=average(): bar.set_postfix(loss='{:.3f}'.format(average)))"]),
    ],
)  # fmt: skip
def test_asked_by_methods(line: str, last: str, after: list[str]) -> None:
    found = _migrated(line, last, CHECK, third="print(log.n, log.v)\nimport utils\n")
    assert [text for text in after if text not in found] == []


@pytest.mark.parametrize(
    "change",
    [
        {"line": ADD + "\nif average.item() > 3: break"},
        {"line": ADD + "\nlog(average)"},
        {"line": ADD + "\naverage.check()", "more": CHECK},  # which asks in every step
    ],
)
def test_meters_that_stay(change: dict[str, str]) -> None:
    found = _migrated(**change)
    assert "average.add(loss.item()" in found


def test_a_meter_that_other_modules_reach() -> None:
    """Another module prints the number, which resolves itself; it does not need to be edited."""
    first = "meter = Averager()\n"
    third = "import train\nprint(train.meter.v)\n"
    line = "meter.add(loss.item())"
    assert "meter.add(xla.item(loss))" in _migrated(line, "pass", first=first, third=third)
    assert "meter.add(xla.item(loss))" in _migrated(line, "pass", first=first)
    assert READ in _migrated(third=third)


SELF = """
import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader
from utils import Averager

class Trainer:
    def __init__(self, model, optimizer):
        self.model, self.optimizer, self.average = model.cuda(), optimizer, None
        self.loss = Averager()

    def train(self, loader: DataLoader):
        for x, y in loader:
            loss = F.cross_entropy(self.model(x.cuda()), y.cuda())
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            self.loss.add(loss.item(), len(x))
        return {last}
"""


@pytest.mark.parametrize(
    ("last", "is_read_later"),
    [
        ("self.loss.item()", True),
        ("self.loss.v", True),
        ("self.loss", True),
        ("self.loss()", True),
        ("[self.loss]", True),
    ],
)
def test_meters_of_an_object(last: str, is_read_later: bool) -> None:
    files = {"train.py": SELF.format(last=last), "utils.py": UTILS.format(more="pass")}
    modules = Modules({name: text.encode() for name, text in files.items()})
    result = migrate(modules.files["train.py"], Options(), "train.py", Project(modules, "train.py"))
    assert ("self.loss.add(xla.item(loss), len(x))" in result.data.decode()) is is_read_later


def test_a_meter_of_a_third_module_is_another_object() -> None:
    third = "from utils import Averager\nother = Averager()\nsend(other.v, other.item())\n"
    assert READ in _migrated(third=third)
