"""What a function of another module makes of a tensor is read like the tensor itself."""

from __future__ import annotations

import re

from tests.each import each
from xla_codemods.analysis.projects.project import Modules, Project
from xla_codemods.engine import Options, check, migrate

TRAIN = """\
import torch.nn.functional as F
from torch.utils.data import DataLoader
import helpers
from helpers import reduced
from mypackage import measured

def train(model, loader: DataLoader, optimizer, names):
    for step, (x, y) in enumerate(loader):
        loss = F.cross_entropy(model(x.cuda()), y.cuda())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print({value})
"""


def _project(value: str) -> tuple[bytes, Project]:
    files = {
        "train.py": TRAIN.format(value=value).encode(),
        "helpers.py": b"import torch\n\ndef reduced(x):\n    return x / torch.distributed.get_world_size()\n",
    }
    return files["train.py"], Project(Modules(files), "train.py")


@each("value", ["reduced(loss)", "helpers.reduced(loss.detach())"])
def test_it_is_computed_in_the_step_and_shown_later(value: str) -> None:
    data, project = _project(f"{value}.item()")
    result = migrate(data, Options(), "train.py", project).data.decode()
    shown = re.escape(f"={value}: print(") + r"\w+\.item\(\)\)\)"
    assert re.search(rf"xla\.later\(lambda \w+{shown}", result)


@each("value", ["reduced(names).item()", "measured(loss).item()", "reduced(step).item()"])
def test_what_is_unknown_is_not_reported(value: str) -> None:
    data, project = _project(value)
    assert "XLA503" not in {f.code for f in check(data, Options(), "train.py", project)}


ACCURACY = """\
def accuracy(output, y, topk=(1,)):
    _, pred = output.topk(max(topk), 1, True, True)
    correct = pred.t().eq(y.view(1, -1).expand_as(pred.t()))
    found = []
    for k in topk:
        found.append(correct[:k].reshape(-1).float().sum(0).mul_(100.0 / y.size(0)))
    return found

def both(output, y):
    return (output.argmax(1) == y).float().mean(), len(y)

def several(output):
    return [part.abs().max() for part in output.chunk(2)]

def rate(output, y):
    return (output.argmax(1) == y).float().mean().cpu()

def sizes(output):
    return output.size(0), output.numel()

def again(output, n):
    value = output
    for _ in range(n):
        value = value * n
    return value
"""


@each(
    "line, is_found",
    [
        ("acc1, acc5 = accuracy(out, y, topk=(1, 5)); print(acc1.item())", True),
        ("acc = accuracy(out, y); print(acc[0].item())", True),
        ("print(accuracy(out, y)[0].item())", True),
        ("acc, n = both(output=out, y=y); print(acc.item())", True),
        ("high = several(out); print(high[0].item(), high[1].item())", True),
        ("value = again(out, 3); print(value.tolist())", True),
        ("acc = rate(out, y); print(acc.item())", False),
        ("n, m = sizes(out); print(n.item())", False),
        ("out = accuracy(out, y); out = accuracy(out[0], y); print(out[0].item())", True),
    ],
)
def test_tensors_in_what_a_function_of_another_module_returns(line: str, is_found: bool) -> None:
    files = {
        "train.py": f"""\
import torch
import torch.nn.functional as F
from measures import accuracy, again, both, rate, several, sizes

def train(model, loader, optimizer, names):
    for x, y in loader:
        y = y.cuda()
        out = model(x.cuda())
        loss = F.cross_entropy(out, y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        {line}
""".encode(),
        "measures.py": ACCURACY.encode(),
    }
    found = check(files["train.py"], path="train.py", project=Project(Modules(files), "train.py"))
    assert ("XLA503" in {f.code for f in found}) is is_found


METERS = """\
class Meter:
    def __init__(self):
        self.sum, self.n = 0.0, 0

    def update(self, value, n=1):
        self.sum += value * n
        self.n += n

    @property
    def avg(self):
        return self.sum / max(self.n, 1)

class Stop(Meter):
    def update(self, value, n=1):
        if value > 10:
            raise SystemExit

def two():
    return Meter(), Meter()

def one(rate=None):
    meter = Meter()
    return meter

def chosen(flag):
    return Meter() if flag else Stop()

def stops():
    return Stop(), Stop()

ALL = [Meter()]

def shared():
    return ALL[0]
"""


def _with_meters(made: str) -> str:
    train = f"""\
import torch
import torch.nn.functional as F
import meters

def train(model, loader, optimizer, flag):
    {made}
    for x, y in loader:
        loss = F.cross_entropy(model(x.cuda()), y.cuda())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.update(loss.item(), x.size(0))
    print(losses.avg)
"""
    files = {"train.py": train.encode(), "meters.py": METERS.encode()}
    project = Project(Modules(files), "train.py")
    return migrate(files["train.py"], Options(), "train.py", project).data.decode()


@each(
    "made", ["losses, accs = meters.two()", "accs, losses = meters.two()", "losses = meters.one()"]
)
def test_meters_that_another_module_makes(made: str) -> None:
    assert "losses.update(xla.item(loss), x.size(0))" in _with_meters(made)


@each(
    "made",
    ["losses, accs = meters.stops()", "losses = meters.chosen(flag)", "losses = meters.shared()"],
)
def test_other_objects_that_another_module_makes(made: str) -> None:
    assert "losses.update(loss.item()" in _with_meters(made)


MEANS = """\
def masked_mean(values, mask):
    return (values * mask).sum() / mask.sum()

def is_missing(values):
    return values is None

def parts(values):
    return [part.mean() for part in values.chunk(2)]

def size(values):
    return values.shape[0]
"""


@each(
    "line, is_read",
    [
        ("if masked_mean(out, out > 0) > 2: print('high')", True),
        ("ratio = masked_mean(out, out > 0)\n        if ratio > 2: print('high')", True),
        ("kept = 2 if masked_mean(values=out, mask=1) <= 2 else 1", True),
        ("if is_missing(out): print('missing')", False),
        ("if is_missing(out) > 0: print('missing')", False),
        ("if parts(out): print('parts')", False),
        ("if size(out) > 2: print('many')", False),
        ("if masked_mean(3, 4) > 2: print('high')", False),
    ],
)
def test_decisions_on_what_another_module_computes(line: str, is_read: bool) -> None:
    train = f"""\
import torch.nn.functional as F
from means import is_missing, masked_mean, parts, size

def train(model, loader, optimizer):
    for x, y in loader:
        out = model(x.cuda())
        loss = F.cross_entropy(out, y.cuda())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        {line}
"""
    files = {"train.py": train.encode(), "means.py": MEANS.encode()}
    found = check(files["train.py"], path="train.py", project=Project(Modules(files), "train.py"))
    assert ("XLA503" in {f.code for f in found}) is is_read


LOSSES = """\
import numpy as np
import torch

def discriminator_loss(real, fake):
    loss, parts = 0, []
    for r, f in zip(real, fake):
        part = torch.mean((1 - r) ** 2) + torch.mean(f ** 2)
        loss += part
        parts.append(part.item())
    return loss, parts

def arrays_loss(real, fake):
    loss, parts = 0, []
    for r, f in zip(real, fake):
        part = np.mean((1 - r) ** 2)
        loss += part
        parts.append(part.item())
    return loss, parts
"""


@each(
    "line, is_read",
    [
        ("loss, parts = discriminator_loss(real, fake)", True),
        ("loss = sum(discriminator_loss(real, fake)[:1])", True),
        ("loss, parts = arrays_loss(real, fake)", False),
        ("loss = real[0].mean()", False),
    ],
)
def test_losses_that_are_read_where_they_are_computed(line: str, is_read: bool) -> None:
    train = f"""\
import torch
from losses import arrays_loss, discriminator_loss

def train(net, generator, optimizer, loader):
    net.cuda(), generator.cuda()
    for x in loader:
        real, fake = net(x.cuda()), net(generator(x.cuda()))
        {line}
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()

def evaluate(net, loader):
    for x in loader:
        print(discriminator_loss(net(x.cuda()), net(x.cuda())))
"""
    files = {"train.py": train.encode(), "losses.py": LOSSES.encode()}
    found = check(
        files["losses.py"], path="losses.py", project=Project(Modules(files), "losses.py")
    )
    assert ("XLA503" in {f.code for f in found}) is is_read


NORMS = """\
import torch

def norm_of(params):
    return torch.norm(torch.stack([p.grad.detach().norm(2) for p in params]), 2)

def worst(model):
    return max(p.grad.abs().max() for p in model.parameters() if p.grad is not None)

def flags(config):
    return config.grad.name
"""


@each(
    "test, is_read",
    [
        ("not torch.isfinite(norms.norm_of(model.parameters())).all()", True),
        ("torch.isnan(norms.norm_of(list(model.parameters())))", True),
        ("norms.worst(model) > 100", True),
        ("norms.flags(model)", False),
    ],
)
def test_gradients_in_another_module_are_on_the_device(test: str, is_read: bool) -> None:
    train = TRAIN.replace("import helpers\n", "import helpers\nimport norms\nimport torch\n")
    train = train.replace(
        "        print({value})", f"        if {test}:\n            raise ValueError"
    )
    files = {"train.py": train.encode(), "norms.py": NORMS.encode()}
    project = Project(Modules(files), "train.py")
    found = check(files["train.py"], Options(), "train.py", project)
    assert ("XLA503" in {f.code for f in found}) is is_read
