"""Meters and loggers of other modules: what they do with a number decides."""

from __future__ import annotations

import textwrap

import pytest

from xla_codemods.analysis.projects.project import Modules, Project
from xla_codemods.engine import Options, check, migrate

TRAIN = """
import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader
from tools.utils import AverageMeter, show

def train(model, loader: DataLoader, optimizer, device):
    losses = AverageMeter("loss")
    for step, (x, y) in enumerate(loader):
        x, y = x.to(device), y.to(device)
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        {line}
    return losses.avg

device = torch.device("cuda")
"""
METER = """
class AverageMeter:
    def __init__(self, name):
        self.name = name
        self.val = self.avg = self.sum = self.count = 0

    def update(self, val, n=1):
        {first}
        self.val = val
        self.sum += val * n
        self.count += n
        self.avg = self.sum / self.count

    def __str__(self):
        return "{{name}} {{val:.4f}}".format(**self.__dict__)

    {more}

{function}
"""
SHOW = "def show(step, value):\n    print(step, f'{value:.4f}')\n"


def _migrated(
    line: str, first: str = "pass", more: str = "", function: str = SHOW, third: str = ""
) -> str:
    files = {
        "train.py": TRAIN.format(line=line),
        "tools/__init__.py": "",
        "tools/utils.py": METER.format(first=first, more=more, function=function),
        "other.py": third,
    }
    modules = Modules({name: textwrap.dedent(text).encode() for name, text in files.items()})
    source = modules.files["train.py"]
    return migrate(source, Options(), "train.py", Project(modules, "train.py")).data.decode()


METERED = "losses.update(loss.item(), x.size(0))"


@pytest.mark.parametrize(
    ("line", "after"),
    [
        (METERED, "losses.update(xla.item(loss), x.size(0))"),
        ("losses.update(float(loss), 3)", "losses.update(xla.item(loss), 3)"),
        ("value = loss.item()\n        losses.update(value)", "value = xla.item(loss)"),
    ],
)
def test_meters_of_other_modules(line: str, after: str) -> None:
    found = _migrated(line)
    assert after in found
    assert "return xla.arrived(losses.avg)" in found


def test_meters_that_a_star_import_brings() -> None:
    files = {
        "train.py": TRAIN.format(line=METERED).replace("import AverageMeter, show", "import *"),
        "tools/__init__.py": "",
        "tools/utils.py": METER.format(first="pass", more="", function=SHOW),
    }
    modules = Modules({name: textwrap.dedent(text).encode() for name, text in files.items()})
    project = Project(modules, "train.py")
    found = migrate(modules.files["train.py"], Options(), "train.py", project).data.decode()
    assert "losses.update(xla.item(loss), x.size(0))" in found


@pytest.mark.parametrize(
    "change",
    [
        {"first": "if val > 3: raise ValueError"},
        {"first": "val = float(val)"},
    ],
)
def test_meters_that_want_pythons_own_number(change: dict[str, str]) -> None:
    assert "losses.update(loss.item(), x.size(0))" in _migrated(METERED, **change)


@pytest.mark.parametrize(
    "function",
    [
        SHOW,
        "import time\ndef show(step, value):\n    print(time.time(), value)\n",
        "seen = []\ndef show(step, value):\n    seen.append(value)\n    print(value)\n",
        "def show(step, value):\n    print(value)\n    return value\n",
        "def show(step, value):\n    if value > 3:\n        raise ValueError\n    print(value)\n",
        "def show(step, value):\n    global last\n    last = value\n    print(value)\n",
        "def show(step, value):\n    print(value, file=open('log', 'a'))\n",
        "def show(step, value):\n    step.last = value\n    print(value)\n",
        "epoch = 0\ndef begin(k):\n    global epoch\n    epoch = k\ndef show(step, value):\n    print(epoch, value)\n",
        "state = {'epoch': 0}\ndef show(step, value):\n    print(state['epoch'], value)\n",
    ],
)
def test_functions_of_other_modules_stay(function: str) -> None:
    assert "show(step, loss.item())" in _migrated("show(step, loss.item())", function=function)
    assert "xla.later" not in _migrated("show(step, loss.item())", function=function)


OWN_LOGGER = """
class Log:
    def __init__(self, path=""):
        self.rows, self.file = [], open(path, "w")

    def info(self, text):
        self.rows.append(text)

    def log(self, step, **values):
        self.rows.append((step, values))

def make_keeper():
    return Log()

def get_logger():
    import logging
    return logging.getLogger("train")
"""


@pytest.mark.parametrize(
    ("made", "line", "later"),
    [
        ("logger = Log()", "logger.info(f'{loss.item()}')", False),
        ("logger = make_keeper()", "logger.info(f'{loss.item()}')", False),
        ("model.logger = Log('a')", "model.logger.info(f'{loss.item()}')", False),
        ("logger = model.get()", "logger.log(step, loss=loss.item())", False),
        ("logger = model.get()", "logger.log(logging.INFO, '%f', loss.item())", True),
        ("logger = model.get()", "logger.log(20, '%f', loss.item())", True),
        ("logger = get_logger()", "logger.info(f'{loss.item()}')", True),
        ("model.logger = get_logger()", "model.logger.info(f'{loss.item()}')", True),
        ("logger = model.get()", "logger.info(f'{loss.item()}')", True),
    ],
)
def test_loggers_that_keep_what_they_are_given(made: str, line: str, later: bool) -> None:
    source = TRAIN.format(line=line).replace("    losses =", f"    {made}\n    losses =")
    source = source.replace(
        "import AverageMeter", "import Log, get_logger, make_keeper, AverageMeter"
    )
    files = {
        "train.py": "import logging" + source,
        "tools/__init__.py": "",
        "tools/utils.py": METER.format(first="pass", more="", function=SHOW) + OWN_LOGGER,
    }
    modules = Modules({path: text.encode() for path, text in files.items()})
    after = migrate(
        files["train.py"].encode(), Options(), "train.py", Project(modules, "train.py")
    ).data.decode()
    assert ("xla.later(" in after) is later
    assert ("xla.item(" in after) is False


STEP = """
import torch

def train_step(model, optimizer, x, y):
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    return {"loss": loss.item()}
"""
LOOP = """
import torch
{imports}

def main(model, optimizer, loader):
    model = model.cuda()
    {head}
        {call}(model, optimizer, x.cuda(), y.cuda())
"""


@pytest.mark.parametrize(
    ("imports", "head", "call", "found"),
    [
        ("from engine import train_step", "for x, y in loader:", "out = train_step", True),
        ("from engine import train_step as step", "for x, y in loader:", "out = step", True),
        ("import engine", "for k, (x, y) in enumerate(loader):", "print(engine.train_step", True),
        ("from engine import train_step", "while True:\n        x = y = torch.ones(2)", "train_step", True),
        ("from engine import train_step", "if True:\n        x = y = torch.ones(2)", "train_step", False),
        ("from engine import train_step", "for x, y in loader:", "later = lambda: train_step", False),
    ],
)  # fmt: skip
def test_what_a_loop_of_another_module_calls_runs_in_every_step(
    imports: str, head: str, call: str, found: bool
) -> None:
    main = LOOP.format(imports=imports, head=head, call=call) + (")\n" if "print(" in call else "")
    modules = Modules({"engine.py": STEP.encode(), "main.py": main.encode()})
    result = check(STEP.encode(), Options(), "engine.py", Project(modules, "engine.py"))
    assert ("XLA503" in {finding.code for finding in result}) is found
