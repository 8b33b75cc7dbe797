"""Calls of trackers and of loggers that only keep numbers are deferred."""

from __future__ import annotations

import pytest

from xla_codemods.analysis.projects.project import Modules, Project
from xla_codemods.engine import Options, check, migrate

SCRIPT = """
import logging, sys, time
import torch
import torch.nn.functional as F
import aim, clearml, comet_ml, mlflow, neptune, wandb
from accelerate import Accelerator
from lightning.fabric import Fabric
from loguru import logger as log
from rich import print as show
from rich.console import Console
from torch.utils.tensorboard import SummaryWriter
{head}

def train(model, batches, optimizer, step=0):
    device = torch.device("cuda")
    {made}
    while True:
        x, y = next(batches)
        loss = F.cross_entropy(model(x.to(device)), y.to(device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        {line}
        step += 1
        if step > 9: break
    {last}
"""


def _migrated(
    head: str, made: str, line: str, last: str = "pass", more: dict[str, str] | None = None
) -> str:
    line = line.replace("\n", "\n        ")
    files = {"train.py": SCRIPT.format(head=head, made=made, line=line, last=last), **(more or {})}
    modules = Modules({name: text.encode() for name, text in files.items()})
    done = migrate(modules.files["train.py"], Options(), "train.py", Project(modules, "train.py"))
    return done.data.decode()


@pytest.mark.parametrize(
    ("made", "line", "to"),
    [
        ("run = wandb.init()", "run.log({'a': loss.item()}, step=step)", "run"),
        ("pass", "wandb.log({'a': loss.item()}, step=step)", "wandb"),
        ("pass", "mlflow.log_metric('a', loss.item(), step=step)", "mlflow"),
        ("run = neptune.init_run()", "run['train/a'].append(loss.item())", "run"),
        ("run = comet_ml.Experiment()", "run.log_metric('a', loss.item(), step=step)", "run"),
        ("run = aim.Run()", "run.track(loss.item(), name='a')", "run"),
        ("task = clearml.Task.init(); to = task.get_logger()", "to.report_scalar('a', 'b', loss.item(), step)", "to"),
        ("writer = SummaryWriter()", "writer.add_scalar('a', loss.item(), step)", "writer"),
        ("acc = Accelerator()", "acc.log({'a': loss.item()}, step=step)", "acc"),
        ("fabric = Fabric()", "fabric.log('a', loss.item())", "fabric"),
        ("pass", "log.info('{:.3f}', loss.item())", "log"),
    ],
)  # fmt: skip
def test_trackers_are_told_later(made: str, line: str, to: str) -> None:
    after = _migrated("", made, line)
    assert f": {line}, to={to})" in after
    assert ".item()" not in after.replace(line, "")


@pytest.mark.parametrize(
    ("made", "line"),
    [
        ("acc = Accelerator()", "acc.print(loss.item())"),
        ("fabric = Fabric()", "fabric.print(f'{loss.item():.3f}')"),
        ("to = Console()", "to.print(f'{loss.item():.3f}')"),
        ("pass", "show(round(loss.item(), 3))"),
    ],
)
def test_other_consoles(made: str, line: str) -> None:
    assert f"xla.later(lambda loss=loss: {line})" in _migrated("", made, line)


def test_all_that_a_tracker_is_told_in_every_step_keeps_its_order() -> None:
    line = "run.log({'step': step})\nrun.log({'a': loss.item()})\nif step % 9 == 0: run.log({'b': step})"
    after = _migrated("", "run = wandb.init()", line)
    assert "xla.later(lambda step=step: run.log({'step': step}), to=run)" in after
    assert "xla.later(lambda loss=loss: run.log({'a': loss.item()}), to=run)" in after
    assert "if step % 9 == 0: run.log({'b': step})" in after


OWN = """
import csv, json, logging, sys, time, wandb
class Log:
    def __init__(self, path):
        self.rows, self.file, self.count = [], open(path, "w"), 0
        self.writer = csv.writer(self.file)

    {method}

    def close(self):
        self.file.close()
"""
OTHERS = [
    "def tell(self, step, loss): self.rows.append((step, float(loss)))",
    "def tell(self, step, loss): self.file.write(f'{step} {loss:.4f}')",
    "def tell(self, step, loss): self.rows.append((time.time(), float(loss)))",
    "def tell(self, step, loss):\n        if loss > 9: raise ValueError",
    "def tell(self, step, loss):\n        if loss > 9: sys.exit(1)",
    "def tell(self, step, loss): send(loss)",
    "def tell(self, step, loss): step.loss = loss",
    "def tell(self, step, loss): self.other.tell(loss)",
    "def tell(self, step, loss):\n        yield loss",
    "def tell(self, step, loss):\n        global last\n        last = float(loss)",
]
TOLD = "log.tell(step, loss.item())"


@pytest.mark.parametrize(
    "method",
    [
        "def tell(self, step, loss): self.rows.append((step, loss))",
        "def tell(self, step, loss):\n        self.count += 1\n        self.rows.append(loss)",
    ],
)
def test_a_logger_that_only_keeps(method: str) -> None:
    more = {"logs.py": OWN.format(method=method)}
    last = "json.dump(log.rows); log.close()"
    after = _migrated("import json\nfrom logs import Log", "log = Log('a')", TOLD, last, more)
    assert "log.tell(step, xla.item(loss))" in after
    assert "json.dump(xla.arrived(log.rows))" in after


@pytest.mark.parametrize("method", OTHERS)
def test_loggers_that_do_more(method: str) -> None:
    more = {"logs.py": OWN.format(method=method)}
    after = _migrated("from logs import Log", "log = Log('a')", TOLD, "log.close()", more)
    assert TOLD in after
    assert "xla.later" not in after


LOGGED = """
from accelerate import Accelerator

accelerator = Accelerator(log_with="all")
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
for step, x in enumerate(loader):
    loss = model(x).mean()
    accelerator.backward(loss)
    optimizer.step()
    optimizer.zero_grad()
    accelerator.log({"loss": loss.item()}, step=step)
    if step > 4:
        break
accelerator.end_training()
"""


def test_accelerates_trackers_are_patched_to_wait() -> None:
    new = migrate(LOGGED.encode()).data.decode()
    told = 'accelerator.log({"loss": loss.item()}, step=step), to=accelerator)'
    assert f"xla.later(lambda loss=loss, step=step: {told}" in new
    assert "xla.patch_accelerate()" in new


@pytest.mark.parametrize(
    ("made", "line", "later"),
    [
        ("acc = Accelerator()", "acc.log({'a': loss})", "acc.log({'a': loss}), to=acc)"),
        ("acc = Accelerator()", "acc.log({'a': loss.detach(), 'b': step}, step=step)", "acc.log({'a': detach, 'b': step}, step=step), to=acc)"),
        ("run = wandb.init()", "run.log({'a': loss.mean()})", "run.log({'a': mean}), to=run)"),
        ("pass", "mlflow.log_metric('a', loss)", "mlflow.log_metric('a', loss), to=mlflow)"),
        ("run = comet_ml.Experiment()", "run.log_metric('a', loss, step=step)", "run.log_metric('a', loss, step=step), to=run)"),
        # of many numbers; a text says where a tensor lies; what else is done with it
        ("run = wandb.init()", "run.log({'a': model.weight})", None),
        ("writer = SummaryWriter()", "writer.add_histogram('a', model.weight, step)", None),
        ("pass", "log.info(loss)", None),
        ("run = wandb.init()", "run.log({'a': wandb.Image(loss)})", None),
        ("run = wandb.init()", "print(run.log({'a': loss}))", None),
    ],
)  # fmt: skip
def test_tensors_as_they_are(made: str, line: str, later: str | None) -> None:
    found = _migrated("", made, line)
    assert ("xla.later(" in found) is (later is not None)
    assert (later or line) in found


METERS = """
import torch

class Value:
    def __init__(self):
        self.total = 0.0

    def update(self, value):
        self.total += value

class Logger:
    def __init__(self):
        self.meters = {}

    def update(self, **values):
        for name, value in values.items():
            if isinstance(value, torch.Tensor):
                value = value.item()
            self.meters.setdefault(name, Value()).update(value)

    def each(self, loader):
        waited = Value()
        for batch in loader:
            yield batch
            waited.update(1.0)

def train(model, optimizer, loader):
    logger = Logger()
    for x in logger.each(loader):
        loss = model(x.cuda()).mean()
        loss.backward()
        optimizer.step()
        logger.update(loss=loss)
"""


def test_a_method_of_the_same_name_of_another_class_is_no_call_of_the_function_that_reads() -> None:
    (found,) = [f for f in check(METERS.encode()) if f.code == "XLA503"]
    assert "marks no steps" not in found.message
