"""Methods and attributes that other classes of the program have, too, by the same name."""

from __future__ import annotations

import textwrap

import pytest

from xla_codemods.analysis.projects.project import Modules, Project
from xla_codemods.engine import Options, migrate

TRAINER = """
import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader
{imports}

class Trainer{bases}:
    def __init__(self, model, optimizer):
        self.model, self.optimizer = model.cuda(), optimizer
        self.losses = []

    def train_step(self, x, y):
        loss = F.cross_entropy(self.model(x.cuda()), y.cuda())
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        {keep}
        return {{"loss": loss.item()}}

    def train(self, loader: DataLoader):
        for step, (x, y) in enumerate(loader):
            logs = self.train_step(x, y)
            if step % 10 == 0:
                print(f"{{step}} {{logs['loss']:.4f}}")
        return sum(self.losses)
"""
RETURNED = "return {'loss': xla.item(loss)}"


def _migrated(
    others: dict[str, str], bases: str = "", imports: str = "", keep: str = "pass"
) -> str:
    trainer = TRAINER.format(bases=bases, imports=imports, keep=keep)
    files = {"trainer.py": trainer, "common.py": "", **others}
    modules = Modules({name: textwrap.dedent(text).encode() for name, text in files.items()})
    source = modules.files["trainer.py"]
    after = migrate(source, Options(), "trainer.py", Project(modules, "trainer.py")).data.decode()
    return after.replace('"', "'")


MAIN = """
from trainer import Trainer
from other import Other
import torch
Trainer(torch.nn.Linear(2, 2), None).train([])
Other().run()
"""
OTHER = """
class Other:
    def train_step(self, x):
        return {"loss": x}

    def run(self):
        import json
        print(json.dumps(self.train_step(3)))
"""


@pytest.mark.parametrize(
    "others",
    [
        {"main.py": MAIN, "other.py": OTHER},
        # made of another class, also by a name; of a library
        {"main.py": MAIN, "other.py": OTHER + "\nother = Other()\nprint([other.train_step(3)])\n"},
        {"main.py": MAIN + "\nagent = Other()\nkept = agent.train_step(3)\n", "other.py": OTHER},
        {"main.py": MAIN, "other.py": OTHER + "\nimport lib\nkept = lib.train_step\n"},
        # another program
        {"main.py": MAIN, "other.py": OTHER, "second.py": "import common\ndef run(trainer):\n    return [trainer.train_step(3)]\n"},
        # only what another class derives from
        {"main.py": MAIN, "other.py": "class Base:\n    def run(self):\n        return [self.train_step(3)]\n" + OTHER.replace("class Other:", "class Other(Base):")},
    ],
)  # fmt: skip
def test_methods_of_other_classes(others: dict[str, str]) -> None:
    assert RETURNED in _migrated(others, imports="import common")


@pytest.mark.parametrize(
    ("others", "bases", "imports"),
    [
        # of what it derives from, or of what derives from it, also under another name
        ({"main.py": MAIN, "other.py": OTHER, "base.py": "class Base:\n    def fit(self):\n        return [self.train_step(3)]\n"}, "(Base)", "from base import Base"),
        ({"main.py": MAIN, "other.py": OTHER + "\nfrom trainer import Trainer as First\nclass Second(First):\n    def fit(self):\n        return [self.train_step(3)]\n"}, "", ""),
        ({"main.py": MAIN, "other.py": OTHER + "\nfrom trainer import Trainer\nclass Mixed:\n    def fit(self):\n        return [self.train_step(3)]\nclass Both(Trainer, Mixed):\n    pass\n"}, "", ""),
        ({"main.py": MAIN, "other.py": OTHER + "\nimport trainer\nBase = trainer.Trainer\nclass Second(Base):\n    def fit(self):\n        return [super().train_step(3)]\n"}, "", ""),
        # which a library may call
        ({"main.py": MAIN, "other.py": OTHER}, "(Base)", "from fabric import Base"),
        ({"main.py": MAIN, "other.py": OTHER, "base.py": "import fabric\nclass Base(fabric.Agent):\n    pass\n"}, "(Base)", "from base import Base"),
        # made of it
        ({"main.py": MAIN + "\nagent = Trainer(None, None)\nkept = [agent.train_step(3, 4)]\n", "other.py": OTHER}, "", ""),
        # loaded by a name that is computed
        ({"main.py": "import importlib\nimportlib.import_module('trainer')\nimport common\nimport second\n", "common.py": "", "second.py": "import common\ndef run(trainer):\n    return [trainer.train_step(3)]\n"}, "", "import common"),
    ],
)  # fmt: skip
def test_methods_that_may_be_called_elsewhere(
    others: dict[str, str], bases: str, imports: str
) -> None:
    assert RETURNED not in _migrated(others, bases, imports)


KEPT = "self.losses.append(xla.item(loss))"


@pytest.mark.parametrize(
    ("other", "is_kept"),
    [
        ("class Other:\n    def __init__(self):\n        self.losses = None\n    def run(self):\n        self.losses = self.losses or 3\n", True),
        ("class Other:\n    def run(self):\n        return sum(self.losses)\n", True),
        ("import lib\nprint(lib.losses)\nclass Other:\n    def run(self):\n        pass\n", True),
        ("class Other:\n    def run(self, trainer=None):\n        return sum(trainer.losses)\n", False),
        ("from trainer import Trainer\nclass Other(Trainer):\n    def run(self):\n        return sum(self.losses)\n", False),
        ("class Other:\n    def run(self, trainer=None):\n        trainer.losses.append(3)\n", False),
        ("class Other:\n    def run(self, trainer=None):\n        trainer.losses[0] = 3\n", False),
        ("class Other:\n    def run(self, trainer=None):\n        return trainer.losses.append\n", False),
        ("class Other:\n    def run(self, trainer=None):\n        trainer.losses[0] += 3\n", False),
    ],
)  # fmt: skip
def test_attributes_of_other_classes(other: str, is_kept: bool) -> None:
    keep = "self.losses.append(loss.item())"
    assert (KEPT in _migrated({"main.py": MAIN, "other.py": other}, keep=keep)) is is_kept


def test_another_class_of_the_same_file() -> None:
    others = {"main.py": MAIN.replace("from other import Other", "from trainer import Other")}
    second = (
        OTHER + "\n    def both(self):\n        kept = self.train_step\n        self.losses = {3}\n"
    )
    keep = "self.losses.append(loss.item())"
    files = {
        "trainer.py": TRAINER.format(bases="", imports="", keep=keep) + second,
        **others,
    }
    modules = Modules({name: text.encode() for name, text in files.items()})
    after = migrate(
        modules.files["trainer.py"], Options(), "trainer.py", Project(modules, "trainer.py")
    )
    text = after.data.decode().replace('"', "'")
    assert KEPT in text
    assert RETURNED in text
