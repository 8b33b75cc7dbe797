"""Reads in meters, hooks and callbacks of other modules, which a training step hands its tensors."""

from __future__ import annotations

import pytest

from xla_codemods.analysis.projects.project import Modules, Project
from xla_codemods.engine import Options, check

HOOKS = """class Hook:
    def after_step(self, trainer, loss=None):
        pass


class Log(Hook):
    def __init__(self):
        self.values = []

    def after_step(self, trainer, loss=None):
        READ
"""
TRAINER = """import torch


class Trainer:
    def __init__(self, model, hooks):
        self.model = model.cuda()
        self.hooks = hooks
        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def call(self, name, *args):
        for hook in self.hooks:
            getattr(hook, name)(self, *args)

    def call_with(self, name, value=None, **more):
        for hook in self.hooks:
            getattr(hook, name)(self, loss=value, **more)

    def run_hooks(self, loss):
        for hook in self.hooks:
            hook.after_step(self, loss)

    def step(self, x):
        self.loss = self.model(x.cuda()).mean()
        self.optimizer.zero_grad()
        self.loss.backward()
        self.optimizer.step()
        return self.loss

    def fit(self, loader):
        for k, x in enumerate(loader):
            loss = self.step(x)
            LINE
        END
"""
GIVEN = "self.values.append(loss.item())"
ENTRY = "self.values.append(loss['loss'].item())"
SHOWN = "import torch; print(float(trainer.loss))"
OWN = "self.values.append(trainer.loss.item())"


def _found(read: str, line: str, end: str = "pass") -> list[int]:
    files = {
        "hooks.py": HOOKS.replace("READ", read),
        "trainer.py": TRAINER.replace("LINE", line).replace("END", end),
        "train.py": "from hooks import Log\nfrom trainer import Trainer\n",
    }
    modules = Modules({name: text.encode() for name, text in files.items()})
    project = Project(modules, "hooks.py")
    found = check(modules.files["hooks.py"], Options(), "hooks.py", project)
    return [finding.line for finding in found if finding.code == "XLA503"]


@pytest.mark.parametrize(
    ("read", "line"),
    [
        (GIVEN, "self.run_hooks(self.loss)"),
        (GIVEN, "self.call('after_step', self.loss)"),
        (GIVEN, "for h in self.hooks: h.after_step(self, loss=self.loss)"),
        (GIVEN, "for n, h in enumerate(self.hooks): h.after_step(self, self.loss * 2)"),
        ("self.values.append(loss.detach().item())", "self.run_hooks(self.loss)"),
        (ENTRY, "self.call('after_step', {'loss': self.loss})"),
        (ENTRY, "self.run_hooks(outputs_of(self))"),
        (GIVEN, "self.call_with('after_step', self.loss)"),
        (OWN, "self.call_with('after_step', value=k)"),
        (OWN, "self.run_hooks(None)"),
        (SHOWN, "self.call('after_step')"),
        (OWN, "self.call('after_step')"),
        (OWN, "for h in self.hooks: h.after_step(self)"),
        (
            "import torch; torch.isnan(loss) and trainer.stop()",
            "self.call('after_step', self.loss)",
        ),
        ("import torch; not loss.isfinite().all() and trainer.stop()", "self.run_hooks(self.loss)"),
        (GIVEN, "if self.accelerator.sync_gradients: self.run_hooks(self.loss)"),
    ],
)
def test_reads_in_hooks_of_each_step(read: str, line: str) -> None:
    assert _found(read, line) == [11]


@pytest.mark.parametrize(
    ("read", "line", "end"),
    [
        (GIVEN, "if k % 10 == 0: self.run_hooks(self.loss)", "pass"),
        (f"if trainer.k % 10 == 0: {GIVEN}", "self.run_hooks(self.loss)", "pass"),
        (GIVEN, "pass", "self.run_hooks(self.loss)"),  # once, at the end
        (GIVEN, "self.call('before_step', self.loss)", "pass"),
        (GIVEN, "self.hooks.after_step(self, self.loss)", "pass"),
        (GIVEN, "self.run_hooks(k)", "pass"),
        (SHOWN.replace("loss", "lr"), "self.run_hooks(k)", "pass"),
        (GIVEN, "self.call_with('after_step', k, rate=self.loss)", "pass"),
        (ENTRY, "self.run_hooks({'loss': k})", "pass"),
        (ENTRY, "self.run_hooks({'loss': self.loss.cpu()})", "pass"),
        (ENTRY, "if k % 10 == 0: self.run_hooks({'loss': self.loss})", "pass"),
        (ENTRY.replace("'loss'", "'lr'"), "self.run_hooks(outputs_of(self))", "pass"),
        (GIVEN, "self.run_hooks(self.loss.cpu())", "pass"),
        ("self.values.append(trainer.lr.item())", "self.run_hooks(self.loss)", "pass"),
    ],
)
def test_what_is_not_read_in_each_step(read: str, line: str, end: str) -> None:
    assert _found(read, line, end) == []


@pytest.mark.parametrize("update", ["True", "(k + 1) % 4 == 0", "k % 4 == 3"])
def test_hooks_of_each_update_with_accelerate(update: str) -> None:
    trainer = f"""import torch
from accelerate import Accelerator
from hooks import Log

accelerator = Accelerator()

def fit(model, optimizer, loader, hooks):
    for k, x in enumerate(loader):
        loss = model(**x).loss
        accelerator.backward(loss)
        if {update}:
            optimizer.step()
            for hook in hooks:
                hook.after_step(None, loss)
"""
    modules = Modules({"hooks.py": HOOKS.replace("READ", GIVEN).encode(), "t.py": trainer.encode()})
    project = Project(modules, "hooks.py")
    found = check(modules.files["hooks.py"], Options(), "hooks.py", project)
    assert [finding.line for finding in found if finding.code == "XLA503"] == [11]


METERS = """class Meter:
    def __init__(self):
        self.sum, self.count = 0.0, 0

    def update(self, value, n=1):
        self.sum += value.item() * n
        self.count += n
"""
LOOP = """import torch
from meters import Meter

model = torch.nn.Linear(4, 4).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
MADE
for x in batches:
    out = model(x.cuda())
    loss = out.pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    LINE
"""


@pytest.mark.parametrize(
    ("made", "line", "lines"),
    [
        ("meter = Meter()", "meter.update(loss)", [6]),
        ("meter = Meter()", "meter.update(value=loss.detach(), n=len(x))", [6]),
        ("meter, other = Meter(), Meter()", "other.update((out > 0).float().mean())", [6]),
        ("meters = [Meter()]", "for m in meters: m.update(loss)", [6]),
        ("meter = Meter()", "meter.update(numpy.float32(3))", []),
        ("meter = Meter()", "meter.update(numpy.float32(3), loss)", []),
    ],
)
def test_meters_of_another_module_without_torch(made: str, line: str, lines: list[int]) -> None:
    files = {"meters.py": METERS, "train.py": LOOP.replace("MADE", made).replace("LINE", line)}
    modules = Modules({name: text.encode() for name, text in files.items()})
    found = check(METERS.encode(), Options(), "meters.py", Project(modules, "meters.py"))
    assert [finding.line for finding in found if finding.code == "XLA503"] == lines


@pytest.mark.parametrize(
    "again", ["loss = loss.mean()", "kept['a'] = loss\n            loss = kept['a'].clone()"]
)
def test_a_loss_that_a_loop_of_a_training_step_computes_again(again: str) -> None:
    source = f"""import lightning as L

class Model(L.LightningModule):
    def training_step(self, batch, index):
        kept = {{}}
        loss = self.model(batch).loss
        for _ in range(2):
            {again}
        self.seen.append(loss.item())

L.Trainer().fit(Model())
"""
    assert [f.code for f in check(source.encode())].count("XLA503") == 1


GROUP = """import torch


class Meter:
    def __init__(self):
        self.sum = 0.0

    def update(self, value, n=1):
        if isinstance(value, torch.Tensor):
            value = value.item()
        self.sum += value * n


class Meters:
    def __init__(self):
        self.meters = {}

    def update(self, n=1, **values):
        for key, value in values.items():
            self.meters.setdefault(key, Meter()).update(value, n)
"""
WITH_METERS = TRAINER.replace("import torch\n", "import torch\nfrom utils import Meters\n").replace(
    "        self.hooks = hooks\n", "        self.hooks = hooks\n        self.meters = Meters()\n"
)


def _reads_of_meters(train: str, hook: str = "pass", utils: str = "") -> set[int]:
    files = {
        "utils/meters.py": GROUP.encode(),
        "utils/__init__.py": (utils or "from .meters import Meters\n").encode(),
        "hooks.py": HOOKS.replace("READ", hook).encode(),
        "trainer.py": WITH_METERS.replace("LINE", train).replace("END", "pass").encode(),
    }
    path = "utils/meters.py"
    found = check(files[path], Options(), path, Project(Modules(files), path))
    return {f.line for f in found if f.code == "XLA503"}


@pytest.mark.parametrize(
    ("train", "hook", "is_read"),
    [
        ("self.call('after_step')", "trainer.meters.update(1, **trainer.outputs['log'])", True),
        ("self.call('after_step')", "trainer.meters.update(**trainer.losses)", True),
        ("self.run_hooks(loss)", "trainer.meters.update(8, **trainer.metrics)", True),
        ("self.call('after_step')", "m = trainer.meters; m.update(1, **trainer.losses)", True),
        ("self.call('after_step')", "trainer.meters.update(loss=trainer.loss)", True),
        ("self.call('after_step')", "trainer.meters.update(a=trainer.outputs['loss'])", True),
        ("self.call('after_step')", "trainer.meters.update(lr=trainer.rate)", False),
        ("self.meters.update(1, loss=loss)", "pass", True),
        ("self.meters.update(1, **self.losses)", "pass", True),
        ("self.call('after_epoch')", "trainer.meters.update(1, **trainer.outputs['log'])", False),
        ("self.call('after_step')", "trainer.meters.update(1, time=trainer.seconds)", False),
        ("self.meters.update(1, loss=len(loss))", "pass", False),
    ],
)
def test_meters_that_a_package_passes_on(train: str, hook: str, is_read: bool) -> None:
    assert _reads_of_meters(train, hook) == ({10} if is_read else set())


def test_meters_that_a_package_imports_by_a_star() -> None:
    assert _reads_of_meters("self.meters.update(1, loss=loss)", utils="from .meters import *\n")


LOSS = """class Loss:
    def __init__(self, model, logger):
        self.model, self.logger = model, logger

    def accumulate(self, phase, x):
        loss = self.model(x).mean()
        if phase == "main":
            LINE
            loss.backward()
"""
START = """import torch
from losses import Loss
from utils import Meters

def main(model, loader):
    model.cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    logger = Meters()
    loss = Loss(model, logger)
    for x in loader:
        loss.accumulate("main", x.cuda())
        optimizer.step()
"""


@pytest.mark.parametrize(
    ("line", "is_read"),
    [("self.logger.update(loss=loss)", True), ("self.logger.update(size=x.size(0))", False)],
)
def test_meters_of_a_module_that_computes_the_gradients(line: str, is_read: bool) -> None:
    files = {
        "utils/meters.py": GROUP.encode(),
        "utils/__init__.py": b"from .meters import Meters\n",
        "losses.py": LOSS.replace("LINE", line).encode(),
        "train.py": START.encode(),
    }
    path = "utils/meters.py"
    found = check(files[path], Options(), path, Project(Modules(files), path))
    assert {f.line for f in found if f.code == "XLA503"} == ({10} if is_read else set())


BANK = """import torch
class Bank(torch.nn.Module):
    def __init__(self, size):
        super().__init__()
        self.register_buffer("labels", torch.full((size,), -1))
    @property
    def is_full(self):
        return self.labels[-1].item() != -1
    def get(self):
        return self.labels if self.is_full else None
"""
OF_BANK = """import torch
from bank import Bank

def train(model, loader, optimizer, start):
    bank = Bank(8).cuda()
    for step, x in enumerate(loader):
        loss = model(x.cuda()).mean()
        if CONDITION:
            loss = loss + loss_of(bank.get())
        loss.backward()
        optimizer.step()
"""


@pytest.mark.parametrize(
    ("condition", "lines"),
    [
        ("step > start", [8]),
        ("model.training", [8]),
        ("step % 10", [8]),
        ("step % 10 == 0", []),
        ("step == start", []),
        ("log_bank", []),
    ],
)
def test_buffers_that_a_method_called_in_each_step_reads(condition: str, lines: list[int]) -> None:
    texts = {"bank.py": BANK, "train.py": OF_BANK.replace("CONDITION", condition)}
    modules = Modules({name: text.encode() for name, text in texts.items()})
    found = check(BANK.encode(), Options(), "bank.py", Project(modules, "bank.py"))
    assert [finding.line for finding in found if finding.code == "XLA503"] == lines


def test_buffers_that_a_method_moves_are_not_read() -> None:
    moves = "    def cpu(self):\n        self.labels = self.labels.cpu()\n        return self\n"
    train = OF_BANK.replace("CONDITION", "step > start").replace(".get()", ".cpu()")
    texts = {"bank.py": BANK + moves, "train.py": train}
    modules = Modules({name: text.encode() for name, text in texts.items()})
    found = check(texts["bank.py"].encode(), Options(), "bank.py", Project(modules, "bank.py"))
    assert [finding.line for finding in found if finding.code == "XLA503"] == []


@pytest.mark.parametrize("call", ["hook.after_step(self)", 'getattr(hook, "after_step")(self)'])
def test_conditions_of_hooks_that_a_loop_calls(call: str) -> None:
    source = f"""import math
import torch


class Hook:
    def after_step(self, trainer):
        pass


class Stop(Hook):
    def after_step(self, trainer):
        if math.isnan(trainer.loss):
            raise ValueError


class Low(Hook):
    def after_step(self, trainer):
        if trainer.loss < 3:
            raise ValueError


class Trainer:
    def __init__(self, model, *hooks):
        self.hooks, self.model = hooks, model.cuda()
        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def fit(self, loader):
        for x in loader:
            self.loss = self.model(x.cuda()).mean()
            self.optimizer.zero_grad()
            self.loss.backward()
            self.optimizer.step()
            for hook in self.hooks:
                {call}


Trainer(torch.nn.Linear(4, 1), Stop(), Low()).fit([torch.ones(2, 4)] * 3)
"""
    found = check(source.encode())
    assert [f.line for f in found if f.code == "XLA503"] == [12, 18]


OF_LISTS = """import torch


def low(loss):
    if loss.item() < 3:
        print("low")


class Trainer:
    def __init__(self, model, hooks=()):
        self.model, self.given = model.cuda(), hooks
        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        self.own = [self.high]
        self.added = []
        self.added.append(low)

    def high(self, loss):
        if loss.item() > 3:
            print("high")

    def fit(self, loader):
        for x in loader:
            loss = self.model(x.cuda()).mean()
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            CALL


Trainer(torch.nn.Linear(4, 1), hooks=[low]).fit([torch.ones(2, 4)] * 3)
"""


@pytest.mark.parametrize(
    ("call", "lines"),
    [
        ("for h in self.own: h(loss)", [18]),
        ("for h in self.added: h(loss)", [5]),
        ("for h in self.given: h(loss)", [5]),
        ("for h in [low, self.high]: h(loss)", [5, 18]),
        ("for _, h in enumerate(self.own): h(loss)", [18]),
        ("[h(loss) for h in self.own]", [18]),
        ("for h in self.own: print(h)", []),
        ("for h in self.own: h(torch.ones(1))", []),
    ],
)
def test_functions_in_a_list_that_a_loop_calls(call: str, lines: list[int]) -> None:
    found = check(OF_LISTS.replace("CALL", call).encode())
    assert [f.line for f in found if f.code == "XLA503"] == lines


_IN_ONE_MODULE = """import torch

def log(loss):
    print(float(loss))

show = lambda t: print(t.item())
hooks = {"log": log}
others = {}
others["log"] = log

def train(model, optimizer, loader):
    for x in loader:
        loss = model(x.cuda()).mean()
        loss.backward()
        optimizer.step()
        LINE
"""


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("for h in hooks.values(): h(loss)", 4),
        ("for name, h in hooks.items(): h(loss)", 4),
        ("for k, h in enumerate(list(hooks.values())): h(loss)", 4),
        ("for h in others.values(): h(loss)", 4),
        ("show(loss)", 6),
    ],
)
def test_functions_in_dictionaries_and_lambdas_run_in_each_step(line: str, found: int) -> None:
    reads = [f for f in check(_IN_ONE_MODULE.replace("LINE", line).encode()) if f.code == "XLA503"]
    assert [read.line for read in reads] == [found]
    assert ("a lambda reads it" in reads[0].message) is (found == 6)


@pytest.mark.parametrize(
    "line",
    ["for name in hooks: print(name)", "if step % 10 == 0: show(loss)"],
)
def test_functions_that_do_not_run_in_each_step(line: str) -> None:
    source = _IN_ONE_MODULE.replace("x in loader", "step, x in enumerate(loader)")
    source = source.replace("LINE", line)
    assert not [f for f in check(source.encode()) if f.code == "XLA503"]
