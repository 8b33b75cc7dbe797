"""Reads of tensors that another module's training step hands over, in functions that ask whether it is one."""

from __future__ import annotations

import pytest

from xla_codemods.analysis.projects.project import Modules, Project
from xla_codemods.engine import Options, check, migrate

METERS = """import torch


class Logger:
    def __init__(self):
        self.sums = {}

    def update(self, **kwargs):
        for k, v in kwargs.items():
            if TEST:
                v = v.item()
            self.sums[k] = self.sums.get(k, 0.0) + v
"""
TRAIN = """import torch
from meters import Logger
from losses import reduced

device = torch.device("cuda")


def train(model, criterion, batches, optimizer):
    logger = Logger()
    for step, (x, y) in enumerate(batches):
        losses = criterion(model(x.to(device)), y.to(device))
        losses_reduced = reduced(losses)
        loss = sum(losses.values())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        LINE
    logger.update(last=loss)
"""
ASKED = "isinstance(v, torch.Tensor)"


def _found(test: str, line: str, meters: str = METERS) -> list[int]:
    files = {"meters.py": meters.replace("TEST", test), "train.py": TRAIN.replace("LINE", line)}
    modules = Modules({name: text.encode() for name, text in files.items()})
    data = modules.files["meters.py"]
    found = check(data, Options(), "meters.py", Project(modules, "meters.py"))
    return [finding.line for finding in found if finding.code == "XLA503"]


@pytest.mark.parametrize(
    ("test", "line", "lines"),
    [
        (ASKED, "logger.update(loss=loss.detach())", [11]),
        (ASKED, "logger.update(lr=0.1, **losses_reduced)", [11]),
        (ASKED, "out = {'acc': loss.detach(), 'n': 3}; logger.update(**out)", [11]),
        (ASKED, "out = {'acc': 0.5, 'n': 3}; logger.update(**out)", []),
        (
            ASKED,
            "logger.update(**{k: v.detach().mean() for k, v in {'a': torch.ones(3, device=device)}.items()})",
            [11],
        ),
        (ASKED, "for k, v in losses.items(): logger.update(**{k: v})", [11]),
        (ASKED, "d = {'a': loss}\n        for k, v in d.items(): logger.update(**{k: v})", [11]),
        (ASKED, "for k in losses: logger.update(**{k: losses[k]})", [11]),
        (ASKED, "for k, v in model.sizes.items(): logger.update(**{k: v})", []),
        ("torch.is_tensor(v) and k != 'lr'", "logger.update(loss=loss.detach())", [11]),
        ("isinstance(v, (torch.Tensor, torch.nn.Parameter))", "logger.update(loss=loss)", [11]),
        # for which the tensor is handed over
        (ASKED, "logger.update(loss=loss.item(), lr=0.1)", [11]),
        (ASKED, "value = loss.item(); logger.update(loss=value)", [11]),
        # numbers alone, now and then, or something else that is asked
        (ASKED, "value = loss.item(); loss = loss * 2; logger.update(loss=value)", []),
        (ASKED, "value = loss.item(); loss /= 2; logger.update(loss=value)", []),
        (ASKED, "value = loss.item(); loss.mul_(2); logger.update(loss=value)", []),
        (
            ASKED,
            "scale = model.scale; value = scale.item(); optimizer.step(); logger.update(scale=value)",
            [],
        ),
        (ASKED, "logger.update(lr=optimizer.param_groups[0]['lr'])", []),
        (ASKED, "if step % 10 == 0: logger.update(loss=loss.detach())", []),
        (ASKED, "pass", []),
        (ASKED, "other.update(loss=loss.detach())", []),
        ("isinstance(k, torch.Tensor)", "logger.update(loss=loss.detach())", []),
        ("hasattr(v, 'item')", "logger.update(loss=loss.detach())", []),
    ],
)
def test_tensors_that_steps_of_other_modules_hand_over(
    test: str, line: str, lines: list[int]
) -> None:
    assert _found(test, line) == lines


def test_numbers_that_unknown_code_receives_are_read_where_they_come_from() -> None:
    line, meters = (
        "logger.update(loss=loss.item())",
        METERS.replace("self.sums[k] =", "send(v); v ="),
    )
    assert _found(ASKED, line, meters) == []
    assert _found(ASKED, line.replace(".item()", ".detach()"), meters) == [11]


@pytest.mark.parametrize(
    ("line", "lines"),
    [
        ("scaler(loss, optimizer, parameters=model.parameters())", [11]),
        ("self.loss_scaler(loss, self.optimizer)", [11]),
        # an epoch, which is no step
        ("train_one_epoch(model, loss_fn, optimizer)", []),
        ("run(loss, optimizer)", []),
    ],
)
def test_a_scaler_that_steps(line: str, lines: list[int]) -> None:
    """`loss_scaler(loss, optimizer)` goes backward; other functions that are given both need not."""
    stepped = TRAIN.replace("loss.backward()", line).replace("optimizer.step()", "pass")
    files = {
        "meters.py": METERS.replace("TEST", ASKED),
        "train.py": stepped.replace("LINE", "logger.update(loss=loss)") + "\n# .backward(\n",
    }
    modules = Modules({name: text.encode() for name, text in files.items()})
    data = modules.files["meters.py"]
    found = check(data, Options(), "meters.py", Project(modules, "meters.py"))
    assert [finding.line for finding in found if finding.code == "XLA503"] == lines


ONE_FILE = """import torch
import torch.nn.functional as F


class Logger:
    def update(self, name, *args, **kwargs):
        {read}


def train(model, batches, optimizer):
    model.cuda()
    logger = Logger()
    for x, y in batches:
        loss = F.cross_entropy(model(x.cuda()), y.cuda())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses = {{"l1": loss, "n": len(x)}}
        {call}
"""
EACH = "for k, v in kwargs.items():\n            self.sums[k] += v.item()"
VALUES = "self.total += sum(v.item() for v in kwargs.values())"
KEY = 'self.total += kwargs["loss"].item()'
ARGS = "for v in args:\n            self.total += v.item()"


@pytest.mark.parametrize(
    ("read", "call", "is_read"),
    [
        (EACH, "logger.update('a', loss=loss)", True),
        (EACH, "logger.update(name='a', loss=loss, n=1)", True),
        (EACH, "logger.update('a', **losses)", True),
        (EACH, "logger.update('a', **{k: v * 2 for k, v in losses.items()})", True),
        (EACH, "logger.update('a', n=1, **{k: v * 2 for k, v in losses.items()})", True),
        (VALUES, "logger.update('a', loss=loss)", True),
        (KEY, "logger.update('a', loss=loss)", True),
        (ARGS, "logger.update('a', loss, 1)", True),
        (ARGS, "logger.update(loss)", False),
        (KEY, "logger.update('a', n=loss)", False),
        (EACH, "logger.update('a', n=1)", False),
    ],
)
def test_star_arguments_of_the_same_file(read: str, call: str, is_read: bool) -> None:
    source = ONE_FILE.format(read=read, call=call)
    assert ("XLA503" in {f.code for f in check(source.encode())}) is is_read


BASE = """from collections import OrderedDict


class Base:
    def read(self, losses):
        numbers = OrderedDict()
        for name, value in losses.items():
            numbers[name] = value.mean().item()
        return numbers

"""
HEIR = """
class Model(Base):
    def __init__(self, net):
        self.net = net.cuda()
        self.optimizer = torch.optim.SGD(net.parameters(), lr=0.1)

    def step(self, x):
        loss = self.net(x.cuda()).mean()
        losses = OrderedDict()
        losses["total"] = {value}
        loss.backward()
        self.optimizer.step()
        self.numbers = self.read(losses)

def train(model, batches):
    for x in batches:
        model.step(x)
"""


@pytest.mark.parametrize(("value", "lines"), [("loss", [8]), ("3.0", [])])
@pytest.mark.parametrize("is_split", [False, True])
def test_values_of_dictionaries_that_steps_pass(
    value: str, lines: list[int], is_split: bool
) -> None:
    """In one file, and if a class in another module inherits the method that reads."""
    heir, torch = HEIR.format(value=value), "import torch\n"
    files = {"base.py": BASE + torch + heir}
    if is_split:
        imports = "from collections import OrderedDict\nfrom base import Base\n"
        files = {"base.py": BASE, "model.py": torch + imports + heir}
    modules = Modules({name: text.encode() for name, text in files.items()})
    found = check(modules.files["base.py"], Options(), "base.py", Project(modules, "base.py"))
    assert [finding.line for finding in found if finding.code == "XLA503"] == lines


SPREAD = """import torch


class Logger:
    def update(self, **kwargs):
        for k, v in kwargs.items():
            if isinstance(v, torch.Tensor):
                v = v.item()


def train(model, batches, optimizer):
    model.cuda()
    logger = Logger()
    for x in batches:
        losses = {{"a": model(x.cuda()).mean()}}
        loss = sum(losses.values())
        loss.backward()
        optimizer.step()
        logger.update({given})
"""


@pytest.mark.parametrize(
    ("given", "lines"),
    [("lr=0.1, loss=loss", [8]), ("lr=0.1, **losses", [8]), ("lr=0.1", [])],
)
def test_named_arguments_that_are_tensors(given: str, lines: list[int]) -> None:
    found = check(SPREAD.format(given=given).encode(), Options())
    assert [finding.line for finding in found if finding.code == "XLA503"] == lines


@pytest.mark.parametrize("walked", ["losses.items()", "sorted(losses.items())"])
def test_reads_of_the_entries_of_a_dictionary_are_deferred(walked: str) -> None:
    text = BASE.replace("losses.items()", walked) + "import torch\n" + HEIR.format(value="loss")
    result = migrate(text.encode(), Options()).data.decode()
    assert "numbers[name] = xla.item(value.mean())" in result


ZIPPED = """import torch


def show(names, values):
    for k, v in LOOP:
        print(k, v.item())


def train(model, batches, optimizer):
    model.cuda()
    for x in batches:
        loss = model(x.cuda()).mean()
        loss.backward()
        optimizer.step()
        show(["loss", "twice"], [loss, loss * 2])
"""


def test_the_reason_repeats_the_loop_as_it_is_written() -> None:
    source = ZIPPED.replace("LOOP", "zip(names[::1], values)")
    (message,) = (f.message for f in check(source.encode(), Options()) if f.code == "XLA503")
    assert "the loop `for k, v in zip(names[::1], values)` marks no steps" in message


@pytest.mark.parametrize("loop", ["zip(names, values)", "enumerate(values)"])
def test_reads_of_a_few_results_are_deferred(loop: str) -> None:
    result = migrate(ZIPPED.replace("LOOP", loop).encode(), Options()).data.decode()
    assert "xla.later(lambda k=k, v=v: print(k, v.item()))" in result


GROUPS = """from collections import defaultdict
import torch


class Meter:
    def __init__(self):
        self.sum, self.count = 0.0, 0

    def update(self, v, n=1):
        if isinstance(v, torch.Tensor):
            v = v.item()
        self.sum += v * n
        self.count += n

    @property
    def average(self):
        return self.sum / self.count


class Logger:
    def __init__(self):
        self.meters = MADE

    def update(self, n=1, **values):
        for key, v in values.items():
            UPDATE
"""


@pytest.mark.parametrize(
    ("made", "update"),
    [
        ("defaultdict(Meter)", "self.meters[key].update(v, n)"),
        ("{}", "self.meters.setdefault(key, Meter()).update(v, n)"),
        ("{k: Meter() for k in ('loss', 'top1')}", "self.meters[key].update(v, n)"),
        ("{'loss': Meter()}", "self.meters.get(key).update(v, n)"),
        ("dict()", "if key not in self.meters: self.meters[key] = Meter()\n            self.meters[key].update(v, n=n)"),
        ("{}", "meter = self.meters.get(key)\n            if meter is None: meter = self.meters[key] = Meter()\n            meter.update(v, n)"),
    ],
)  # fmt: skip
def test_meters_in_a_dictionary(made: str, update: str) -> None:
    meters = GROUPS.replace("MADE", made).replace("UPDATE", update)
    train = TRAIN.replace("LINE", "logger.update(x.size(0), loss=loss.detach())")
    files = {"meters.py": meters.encode(), "train.py": train.encode()}
    modules = Modules(files)
    project = Project(modules, "meters.py")
    after = migrate(files["meters.py"], Options(), "meters.py", project).data.decode()
    assert "v = xla.item(v)\n" in after
    assert "return xla.arrived(self.sum) / self.count\n" in after
