"""Steps average only what the program keeps the same on every process."""

from __future__ import annotations

import textwrap

import pytest

from xla_codemods.analysis.projects.project import Modules, Project
from xla_codemods.engine import Options, check, migrate

from ....each import each
from ...helpers import findings, migrated

PLAIN = "xla.optimizer_step({}, average=False)"

AVERAGED = "xla.optimizer_step({})"

HEAD = """
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("gloo")
"""


def after(body: str, head: str = HEAD) -> str:
    return migrated(head + textwrap.dedent(body))


ALONE = {
    "beside a replica": """
        table = nn.Embedding(4, 2)
        top = DDP(nn.Linear(2, 1))
        opt = torch.optim.SGD(table.parameters(), lr=0.1)
        other = torch.optim.SGD(top.parameters(), lr=0.1)
        top(table(x)).sum().backward()
        opt.step()
        other.step()
        """,
    "by attributes": """
        class Trainer:
            def __init__(self):
                self.table = nn.Embedding(4, 2).to("cuda")
                self.top = DDP(nn.Linear(2, 1))
                self.opt = torch.optim.SGD(self.table.parameters(), lr=0.1)

            def train(self, x):
                self.top(self.table(x)).sum().backward()
                self.opt.step()
        """,
    "handed to the loop": """
        def train(table, top, opt, x):
            top(table(x)).sum().backward()
            opt.step()

        def main(x):
            table = nn.Embedding(4, 2)
            top = DDP(nn.Linear(2, 1))
            train(table, top, torch.optim.SGD(table.parameters(), lr=0.1), x)
        """,
    "its weight, in groups": """
        table = nn.Embedding(4, 2)
        top = DDP(nn.Linear(2, 1))
        opt = torch.optim.SGD([{"params": [table.weight], "lr": 0.5}])
        top(table(x)).sum().backward()
        opt.step()
        """,
    "one optimizer for both": """
        table = nn.Embedding(4, 2)
        top = DDP(nn.Linear(2, 1))
        params = list(top.parameters()) + list(table.parameters())
        opt = torch.optim.SGD(params, lr=0.1)
        top(table(x)).sum().backward()
        opt.step()
        """,
    "a tensor": """
        weight = torch.zeros(4, requires_grad=True)
        top = DDP(nn.Linear(2, 1))
        opt = torch.optim.SGD([weight], lr=0.1)
        (top(x) * weight).sum().backward()
        opt.step()
        """,
    "nothing is wrapped": """
        def train(model, opt, x):
            model(x).sum().backward()
            opt.step()
        """,
    "a class of its own": """
        class Table(nn.Module):
            pass

        def main(x):
            table = Table().cuda()
            top = DDP(nn.Linear(2, 1))
            opt = torch.optim.SGD(filter(lambda p: p.requires_grad, table.parameters()), lr=0.1)
            top(table(x)).sum().backward()
            torch.nn.utils.clip_grad_norm_(table.parameters(), 1.0)
            opt.step()
        """,
    "reduced within a group": """
        def train(model, opt, x, group):
            model(x).sum().backward()
            for p in model.parameters():
                dist.all_reduce(p.grad, group=group)
            opt.step()
        """,
    "only the loss is reduced": """
        def train(model, opt, x):
            loss = model(x).sum()
            loss.backward()
            dist.all_reduce(loss)
            opt.step()
        """,
}


def test_steps_through_a_scaler_alike() -> None:
    body = ALONE["beside a replica"].replace("opt.step()", "scaler.step(opt)")
    result = after("scaler = torch.cuda.amp.GradScaler()\n" + textwrap.dedent(body))
    assert PLAIN.format("opt") in result
    assert AVERAGED.format("other") in result


def test_a_second_run_reports_nothing() -> None:
    result = after(ALONE["beside a replica"])
    assert not [code for _, code in findings(result) if code == "XLA501"]


OWN_STEP = """
import torch

def fit(model, batches, closure, scaler, epoch, lr):
    optimizer = make_optimizer(model)
    for batch in batches:
        loss = model(batch).sum()
        {}
"""


@pytest.mark.parametrize(
    "step",
    [
        "optimizer.step(loss)",
        "optimizer.step(loss=loss)",
        "optimizer.step(model(batch).sum())",
        "optimizer.step(loss, retain_graph=True)",
        "optimizer.step(epoch)",
        "optimizer.step(scaler)",
    ],
)
def test_a_step_of_its_own_class_is_called_as_before(step: str) -> None:
    assert f"        {step}\n        xla.mark_step()\n" in migrated(OWN_STEP.format(step))


@pytest.mark.parametrize(
    "loop",
    [
        "for optimizer in optimizers:\n            optimizer.step()",
        "for k in optimizers:\n            optimizers[k].step()",
        "for k, p in params:\n            optimizer = optimizers[k]\n            optimizer.step()",
        "for p in params:\n            optimizer = torch.optim.SGD([p])\n            optimizer.step()",
        "for part, optimizer in optimizers:\n            optimizer.step(loss, part)",
    ],
)
def test_the_step_over_several_optimizers_is_marked_behind_them(loop: str) -> None:
    after = migrated(f"import torch\ndef step(optimizers, params, loss):\n        {loop}\n")
    assert after.endswith("\n        xla.mark_step()\n")


def test_a_step_of_a_class_with_an_unknown_base_is_one() -> None:
    head = "import torch\nfrom others import Adan, Base\n"
    body = "optimizer = {}(p)\nloss.backward()\noptimizer.step()\n"
    averaged = migrated(f"{head}class Own(Adan):\n    pass\n{body.format('Own')}")
    assert "xla.optimizer_step(optimizer)" in averaged
    plain = migrated(f"{head}class Own:\n    pass\n{body.format('Own')}")
    assert "optimizer.step()" in plain


@pytest.mark.parametrize(
    ("loop", "steps"),
    [
        ("for v in self.things.values()", True),
        ("for k, v in self.things.items()", True),
        ("for i, v in enumerate(self.things.values())", True),
        ("for v, s in zip(self.things.values(), self.schedules)", True),
        ("for v in self.optimizers", True),
        ("for v in self.models.values()", False),
        ("for k, v in self.lr_schedulers.items()", False),
        ("for v in list(self.lr_schedulers)", False),
        ("for s, v in zip(self.things.values(), self.others)", False),
    ],
)
def test_the_variable_of_a_loop_is_what_that_loop_goes_through(loop: str, steps: bool) -> None:
    source = f"""import torch
class Trainer:
    def gradients(self, x):
        self.models["a"](x.cuda()).sum().backward()
    def zero(self):
        for v in self.things.values():
            v.zero_grad()
    def step(self):
        {loop}:
            v.step()
"""
    assert ((10, "XLA501") in findings(source)) is steps


@pytest.mark.parametrize(
    ("use", "is_torchs"),
    [
        ("optim(params)\n    optim.step()", False),
        ("self.optim(params)\n    self.optim.step()", False),
        (
            "optim(params)\n    try:\n        optim.step()\n    except AttributeError:\n        pass",
            False,
        ),
        ("optim.zero_grad()\n    optim(params)\n    optim.step()", False),
        ("optimizer(loss, params)\n    optimizer.step()", False),
        ("optim = optim(params)\n    optim.step()", True),
        ("optim.zero_grad()\n    optim.step()", True),
    ],
)
def test_what_is_called_is_no_optimizer_of_torch(use: str, is_torchs: bool) -> None:
    source = f"import torch\ndef step(self, optim, optimizer, params, loss):\n    loss.cuda().backward()\n    {use}\n"
    assert ("xla.optimizer_step(" in migrated(source)) is is_torchs


@each(
    "base, is_one",
    [
        ("torch.optim.Optimizer", True),
        ("optim.Optimizer", True),
        ("Keyed", True),
        ("Again", True),
        ("optim.lr_scheduler.LRScheduler", False),
        ("object", False),
    ],
)
def test_a_step_of_an_optimizer_s_own_class_is_part_of_others(base: str, is_one: bool) -> None:
    source = f"""
import torch
from torch import optim

class Keyed(optim.Optimizer):
    pass

class Again(Keyed):
    pass

class Combined({base}):
    def __init__(self, params):
        self._optims = [optim.SGD(params, 0.1), optim.Adam(params)]

    def step(self, closure=None):
        for optimizer in self._optims:
            optimizer.step(closure=closure)

def train(model, batches):
    optimizer = Combined(model.cuda().parameters())
    for x in batches:
        model(x.cuda()).sum().backward()
        optimizer.step()
"""
    assert ((17, "XLA501") not in findings(source)) is is_one


@each(
    "base, is_left",
    [
        ("class Base(Optimizer): ...", True),
        ("class Root(ABC, Optimizer): ...\nclass Base(Root): ...", True),
        ("from .deep import Base", True),
        ("class Base(LRScheduler): ...", False),
        ("class Base: ...", False),
    ],
)
def test_the_step_of_an_optimizer_whose_base_stands_in_another_module(
    base: str, is_left: bool
) -> None:
    files = {
        "deep.py": b"import torch\nclass Base(torch.optim.AdamW): ...\n",
        "base.py": (
            "from abc import ABC\nfrom torch.optim import Optimizer\n"
            f"from torch.optim.lr_scheduler import LRScheduler\n{base}\n"
        ).encode(),
        "ahead.py": b"""
import torch
from .base import Base
class Ahead(Base):
    def __init__(self, optimizer: torch.optim.Optimizer):
        self.optimizer = optimizer
    def step(self, closure=None):
        loss = self.optimizer.step(closure)
        self.update()
        return loss
""",
    }
    files = {f"pack/{name}": data for name, data in files.items()} | {"pack/__init__.py": b""}
    project = Project(Modules(files), "pack/ahead.py")
    found = check(files["pack/ahead.py"], Options(), "pack/ahead.py", project)
    assert ({f.code for f in found} & {"XLA501", "XLA502"} == set()) is is_left


@pytest.mark.parametrize(
    ("used", "steps"),
    [
        ("loss = self.net(x)\n        self.part.backward(loss)", False),  # an engine's
        ("loss = self.part(x)\n        loss.backward()", False),
        ("loss = self.net(x)\n        loss.backward()", True),
        ("loss = self.net(x)\n        loss.backward()\n        self.part.backward()", True),
    ],
)
def test_an_engine_is_no_optimizer(used: str, steps: bool) -> None:
    source = (
        "import torch\n"
        "class Learner:\n"
        "    def learn(self, x):\n"
        "        x = x.cuda()\n"
        "        self.part.zero_grad()\n"
        f"        {used}\n"
        "        self.part.step()\n"
    )
    assert ("optimizer_step" in migrated(source)) is steps


@pytest.mark.parametrize(
    ("given", "steps"),
    [
        ("losses", False),
        ("[loss, loss]", False),
        ("loss", False),
        ("lambda: loss", True),
        ("closure", True),
        ("None", True),
        ("", True),
    ],
)
def test_an_optimizer_of_ones_own_that_takes_losses(given: str, steps: bool) -> None:
    """It computes the gradients itself: averages before its step would be of others."""
    after = migrated(
        "import torch\n"
        "class Balance(torch.optim.Optimizer):\n"
        "    def step(self, losses):\n"
        "        raise NotImplementedError\n"
        "def train(model, x, closure):\n"
        "    model.cuda()\n"
        "    optimizer = Balance(model.parameters())\n"
        "    loss = torch.ones(2, device='cuda').sum()\n"
        "    losses = [loss, loss]\n"
        f"    optimizer.step({given})\n"
    )
    assert ("xla.optimizer_step(optimizer" in after) is steps


@pytest.mark.parametrize(
    ("imported", "base"),
    [
        ("from accelerate.optimizer import AcceleratedOptimizer", "AcceleratedOptimizer"),
        ("from lightning.pytorch.core.optimizer import LightningOptimizer", "LightningOptimizer"),
        ("from torch.optim import Optimizer", "Optimizer"),
    ],
)
def test_a_step_within_a_wrapper_of_another_package_is_part_of_one(
    imported: str, base: str
) -> None:
    source = (
        "import torch\n"
        f"{imported}\n"
        f"class Mine({base}):\n"
        "    def step(self, closure=None):\n"
        "        torch.cuda.synchronize()\n"
        "        self.optimizer.step(closure=closure)\n"
    )
    after = migrated(source)
    assert "self.optimizer.step(closure=closure)" in after
    assert "mark_step" not in after


@pytest.mark.parametrize("imported", ["from .wrap import Wrapper", "from .names import Wrapper"])
@pytest.mark.parametrize("annotation", ["Wrapper", "Optional[Wrapper]"])
def test_the_step_of_a_wrapper_that_is_declared_in_another_module(
    imported: str, annotation: str
) -> None:
    """The wrapper's own step averages, and marks."""
    files = {
        "pack/names.py": b"from .wrap import *\n",
        "pack/wrap.py": b"""\
class Wrapper:
    def __init__(self, optim):
        self._optim = optim

    def step(self):
        self._optim.step()
""",
        "pack/parts.py": f"{imported}\nclass Parts:\n    optim: {annotation}\n".encode(),
        "pack/fit.py": b"""\
import torch
from .parts import Parts

def fit(parts: Parts, batches):
    for batch in batches:
        parts.model(batch.cuda()).sum().backward()
        parts.optim.step()
""",
    }
    known = Modules(files)

    def after(path: str) -> str:
        return migrate(files[path], path=path, project=Project(known, path)).data.decode()

    assert "        parts.optim.step()\n" in after("pack/fit.py")
    assert "xla.optimizer_step(self._optim)\n        xla.mark_step()" in after("pack/wrap.py")


@pytest.mark.parametrize("target", ["done, norm", "done, (norm, _)", "[done, norm]"])
def test_an_optimizer_that_returns_several_values_is_no_optimizer_of_torch(target: str) -> None:
    source = f"""\
import torch
class Trainer:
    def train_step(self, loss):
        loss.cuda().backward()
        {target} = self.optimizer.step()
        return done
"""
    assert f"{target} = self.optimizer.step()" in migrated(source)
