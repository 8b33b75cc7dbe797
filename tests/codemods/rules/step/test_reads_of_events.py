"""Reads in callbacks that look up their methods by an event's name."""

from __future__ import annotations

import pytest

from tests.codemods.helpers import migrated
from xla_codemods.analysis.projects.project import Modules, Project
from xla_codemods.engine import Options, check

CALLBACKS = """class Callback:
    def __call__(self, event):
        LOOKUP

    def attach(self, learn):
        self.learn = learn


class Recorder(Callback):
    def METHOD(self):
        print(READ)
"""
LEARNER = """import torch


class Learner:
    def __init__(self, model, callbacks):
        self.model, self.callbacks = model.cuda(), callbacks
        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for callback in callbacks:
            ATTACH

    def __call__(self, event):
        for callback in self.callbacks:
            callback(event)

    def run(self, part, function):
        function()
        self(f"after_{part}")

    def step(self):
        self.loss = self.model(self.x).mean()
        self.loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()

    def batch(self, x):
        self.x = x.cuda()
        BATCH

    def fit(self, loader):
        for epoch in range(3):
            for x in loader:
                self.batch(x)
            self("after_epoch")
"""
TRAIN = b"from callbacks import Recorder\nfrom learner import Learner\n"
CALL = "self.step(); self('after_batch')"
RUN = "self.run('batch', self.step)"
AT_ONCE = "getattr(self, event)()"
BY_NAME = "f = getattr(self, event, None)\n        if f is not None: f()"
SET, ATTACH = "callback.learn = self", "callback.attach(self)"
LOSS = "self.learn.loss.item()"
EACH = [
    (AT_ONCE, "after_batch", SET, CALL, LOSS, True),
    (BY_NAME, "after_batch", SET, CALL, LOSS, True),
    (AT_ONCE, "after_batch", ATTACH, CALL, LOSS, True),
    (AT_ONCE, "after_batch", SET, RUN, LOSS, True),
    (BY_NAME, "after_batch", ATTACH, RUN, "self.learn.loss.detach().item()", True),
    (AT_ONCE, "after_epoch", SET, CALL, LOSS, False),
    (AT_ONCE, "before_batch", SET, CALL, LOSS, False),
    (AT_ONCE, "after_batch", SET, CALL, "self.learn.rate.item()", False),
]


def _parts(lookup: str, method: str, attach: str, batch: str, read: str) -> tuple[str, str]:
    callbacks = CALLBACKS.replace("LOOKUP", lookup).replace("METHOD", method).replace("READ", read)
    return callbacks, LEARNER.replace("ATTACH", attach).replace("BATCH", batch)


def _found(callbacks: str, learner: str) -> list[str]:
    files = {"callbacks.py": callbacks.encode(), "learner.py": learner.encode(), "train.py": TRAIN}
    project = Project(Modules(files), "callbacks.py")
    return [f.code for f in check(files["callbacks.py"], Options(), "callbacks.py", project)]


@pytest.mark.parametrize(("lookup", "method", "attach", "batch", "read", "is_read"), EACH)
def test_callbacks_of_another_module(
    lookup: str, method: str, attach: str, batch: str, read: str, is_read: bool
) -> None:
    found = _found(*_parts(lookup, method, attach, batch, read))
    assert found == ["XLA503"] * is_read


@pytest.mark.parametrize(("lookup", "method", "attach", "batch", "read", "is_read"), EACH)
def test_callbacks_of_the_same_module(
    lookup: str, method: str, attach: str, batch: str, read: str, is_read: bool
) -> None:
    source = "\n\n".join(_parts(lookup, method, attach, batch, read)[::-1])
    later = migrated(source)
    assert ("xla.later(" in later) is is_read
    assert later.count("mark_step") <= 1


@pytest.mark.parametrize(
    ("condition", "is_read"),
    [
        ("torch.isnan(self.learn.loss)", True),
        ("torch.isinf(self.learn.loss) or torch.isnan(self.learn.loss)", True),
        ("self.learn.loss > 4", True),
        ("self.learn.rate > 4", False),
        ("self.learn.loss is None", False),
    ],
)
def test_conditions_of_callbacks(condition: str, is_read: bool) -> None:
    callbacks, learner = _parts(AT_ONCE, "after_batch", SET, CALL, LOSS)
    callbacks = f"import torch\n{callbacks}".replace(
        f"print({LOSS})", f"if {condition}: raise Stop()"
    )
    assert _found(callbacks, learner) == ["XLA503"] * is_read


def test_an_epoch_is_no_step_although_a_method_takes_its_steps() -> None:
    callbacks, learner = _parts(AT_ONCE, "after_epoch", SET, CALL, LOSS)
    learner = learner.replace(
        """            for x in loader:
                self.batch(x)
            self(""",
        """            self.train(loader)
            self.scheduler.step()
            self(""",
    )
    learner += (
        "\n    def train(self, loader):\n        for x in loader:\n            self.batch(x)\n"
    )
    assert _found(callbacks, learner) == []
