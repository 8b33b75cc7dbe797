"""What runs once per step: also functions that are handed to others, which call them."""

from __future__ import annotations

import pytest

from xla_codemods.analysis.projects.project import Modules, Project
from xla_codemods.engine import check

TRAINER = """import torch

class Trainer:
    def train(self, x):
        loss = self.model(x.cuda()).mean()
        loss.backward()
        self.optimizer.step()
        self.last = loss.item()
"""
MAIN = """from lib import Trainer
{imported}

def main(batches, trainer):
    {loop}
"""


@pytest.mark.parametrize(
    ("loop", "is_step"),
    [
        ("for x in batches:\n        trainer.train(x)", True),
        ("for x in batches:\n        retry_call(trainer.train, fargs=(x,), tries=3)", True),
        ("for x in batches:\n        timed(trainer.train, x)", True),
        ("while True:\n        pool.submit(trainer.train, next(batches))", True),
        ("for epoch in range(3):\n        for x in batches:\n            attempt(trainer.train, x)", True),
        ("retry_call(trainer.train, fargs=batches)", False),
        ("for x in batches:\n        timed(trainer.validate, x)", True),  # who calls `train` is not here
        ("def each(x):\n        trainer.train(x)\n    for x in batches:\n        each(x)", True),
        ("def once(x):\n        trainer.train(x)\n    once(batches)", False),
        ("for x in batches:\n        timed(np.train, x)", False),
    ],
)  # fmt: skip
def test_a_step_that_is_handed_to_another_function_in_a_loop(loop: str, is_step: bool) -> None:
    main = MAIN.format(imported="import numpy as np", loop=loop)
    modules = Modules({"lib.py": TRAINER.encode(), "main.py": main.encode()})
    apart = check(TRAINER.encode(), path="lib.py", project=Project(modules, "lib.py"))
    whole = check((TRAINER + "\n" + main.replace("from lib import Trainer\n", "")).encode())
    assert ("XLA503" in {f.code for f in apart}) is is_step
    assert ("XLA503" in {f.code for f in whole}) is is_step


STEP = """import torch

class Learner:
    def __init__(self, net):
        self.net = net.cuda()
        self.opt = torch.optim.Adam(net.parameters())

    def update(self, x):
        loss = self.net(x.cuda()).mean()
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        {use}
"""


@pytest.mark.parametrize(
    ("use", "later"),
    [
        ("print(loss.item())", True),
        ('return {"loss": loss.item()}', False),
        ("return loss.item()", False),
        ('metrics = {}\n        metrics["loss"] = loss.detach().cpu().numpy()\n        return metrics', False),
        ("return loss.item(), self.net(x).mean().item()", False),
    ],
)  # fmt: skip
def test_a_whole_step_that_nothing_here_calls(use: str, later: bool) -> None:
    """Whoever calls `learner.update(batch)` trains by it; what it returns goes to who is not known here."""
    found = [f for f in check(STEP.format(use=use).encode()) if f.code == "XLA503"]
    assert found
    assert all(bool(f.edits) is later for f in found)


@pytest.mark.parametrize(
    "called", ["Learner(net).update(batch)", "learner = Learner(net)\nlearner.update(batch)"]
)
def test_a_step_that_is_taken_once(called: str) -> None:
    source = STEP.format(use="print(loss.item())") + f"\n\n{called}\n"
    assert "XLA503" not in {f.code for f in check(source.encode())}


RETURNED = """import torch

def make_step(model, update):
    def step(x):
        loss = model(x.cuda()).mean()
        loss.backward()
        update()
        print(loss.item())
    return {returned}
"""


@pytest.mark.parametrize(("returned", "is_step"), [("step", True), ("model", False)])
def test_a_step_that_a_function_makes_for_others(returned: str, is_step: bool) -> None:
    found = check(RETURNED.format(returned=returned).encode())
    assert ("XLA503" in {f.code for f in found}) is is_step


OPTIMIZER = """import torch

class Optimizer:
    def __init__(self, parameters):
        self._opt = torch.optim.Adam(parameters)

    def __call__(self, loss, device="cuda"):
        self._opt.zero_grad()
        loss.backward()
        self._opt.step()
        print(loss.item())

def first(loss):
    return Optimizer([])(loss)
"""


def test_a_step_that_is_handed_its_loss() -> None:
    assert "XLA503" in {f.code for f in check(OPTIMIZER.encode())}


HELPED = """import torch

class Trainer:
    def train(self, batches):
        for x in batches:
            loss, log = {call}
            loss.backward()
            self.optimizer.step()
            print(log)

    def with_autocast(self, function, x):
        with torch.autocast("cuda"):
            return function(x)

    def losses(self, x):
        loss = torch.norm(torch.ones(2, device="cuda") - x)
        return loss, loss.item()
"""


@pytest.mark.parametrize(
    "call",
    [
        "self.with_autocast(self.losses, x)",
        "self.with_autocast(function=self.losses, x=x)",
        "self.losses(x)",
    ],
)
def test_a_method_that_another_one_is_handed_to_call(call: str) -> None:
    found = check(HELPED.format(call=call).encode())
    assert [f.line for f in found if f.code == "XLA503"] == [17]


LIGHTNING = """import torch
import lightning as L

class Net(L.LightningModule):
    def {method}(self, batch, index):
        x, y = batch
        loss = torch.nn.functional.mse_loss(self.net(x), y)
        {use}
        return loss
"""


@pytest.mark.parametrize(
    ("method", "use", "found"),
    [
        ("training_step", "self.last = loss.item()", True),
        ("training_step", 'self.log("loss", loss.item())', True),
        ("training_step", "self.history.append(float(loss))", True),
        ("training_step", 'self.log("loss", loss)', False),
        ("training_step", "loss = self.criterion(y)\n        self.last = loss.item()", True),
        ("validation_step", "self.last = loss.item()", False),
    ],
)
def test_a_step_that_lightning_takes(method: str, use: str, found: bool) -> None:
    """It is named, and left: Lightning marks the step."""
    reads = [
        f for f in check(LIGHTNING.format(method=method, use=use).encode()) if f.code == "XLA503"
    ]
    assert bool(reads) is found
    assert not any(f.edits for f in reads)


FAILED = """import torch

def train(model, loader, optimizer):
    for x in loader:
        loss = model(x.cuda()).mean()
        {test}
            {body}
        {behind}
        optimizer.step()
"""


@pytest.mark.parametrize(
    ("test", "body", "behind", "found"),
    [
        ("if torch.isnan(loss):", "print(loss)\n            continue", "loss.backward()", [6]),
        ("if loss.isinf() or torch.isnan(loss):", "print(loss)", "loss.backward()", [6]),
        ("if not torch.isfinite(loss):", "print(loss)", "loss.backward()", [6]),
        ("if not torch.isnan(loss):", "print(loss)", "loss.backward()", [6, 7]),
        (
            "if torch.isfinite(loss):",
            "loss.backward()\n        else:\n            print(loss)",
            "",
            [6],
        ),
    ],
)
def test_what_is_done_where_a_step_fails_is_not_done_in_each(
    test: str, body: str, behind: str, found: list[int]
) -> None:
    source = FAILED.format(test=test, body=body, behind=behind)
    assert [f.line for f in check(source.encode()) if f.code == "XLA503"] == found


@pytest.mark.parametrize(
    ("device", "found"),
    [
        ("self.args.device", True),
        ("args.device", True),
        ("self.config.training.device", True),
        ("model_args.device", True),
        ("y.device", False),
        ("self.weight.device", False),
    ],
)
def test_a_device_of_options_is_one_to_compute_on(device: str, found: bool) -> None:
    source = (
        "import torch\n"
        "class Trainer:\n"
        "    def train(self, loader, args, y):\n"
        "        for x in loader:\n"
        f"            loss = self.model(x.to({device})).mean()\n"
        "            self.meter.add(loss.item())\n"
        "            loss.backward()\n"
        "            self.optimizer.step()\n"
    )
    assert ("XLA503" in {f.code for f in check(source.encode())}) is found


PERIOD = """import torch

class Trainer:
    def __init__(self, net, every{default}):
        self.net, self.opt = net.cuda(), torch.optim.SGD(net.parameters(), 0.1)
        self.every = {every}

    def train(self, batches):
        for step, x in enumerate(batches):
            loss = self.net(x.cuda()).mean()
            loss.backward()
            self.opt.step()
            if step % self.every == 0:
                print(loss.item())

{made}
"""


@pytest.mark.parametrize(
    ("default", "every", "made", "is_step"),
    [
        ("=1", "every", "Trainer(net)", True),
        ("", "1", "Trainer(net)", True),
        ("=1", "every", "Trainer(net, every=50)", False),
        ("=50", "every", "Trainer(net)", False),
        ("", "self.every", "Trainer(net)", False),  # of itself
    ],
)
def test_a_condition_whose_period_is_1_holds_in_each_step(
    default: str, every: str, made: str, is_step: bool
) -> None:
    found = check(PERIOD.format(default=default, every=every, made=made).encode())
    assert ("XLA503" in {f.code for f in found}) is is_step
