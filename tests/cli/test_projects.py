"""Runs over several modules of one project."""

from __future__ import annotations

import ast
import time
from pathlib import Path

import pytest

from xla_migrate.cli.migrated_project import migrated_project

from .conftest import Runner

COMPAT = "from torch.cuda.amp import autocast\n"
OWN = "class autocast:\n    pass\n"
TRAIN = """import torch
from compat import autocast

def predict(model, x):
    with autocast():
        return model(x)
"""


@pytest.fixture
def project(here: Path) -> Path:
    (here / "compat.py").write_text(COMPAT)
    (here / "train.py").write_text(TRAIN)
    _settle()
    return here


def _settle() -> None:
    time.sleep(0.03)  # files of this very moment are not trusted


def test_a_name_that_another_module_hands_on(run: Runner, project: Path) -> None:
    assert "train.py:5:10: XLA201" in run("check", ".").out
    assert "train.py:5:10: XLA201" in run("check", "train.py").out, (
        "the module is no part of the run"
    )


def test_what_rests_on_another_module_changes_with_it(run: Runner, project: Path) -> None:
    assert run("check", ".").code == 1
    (project / "compat.py").write_text(OWN)
    _settle()
    assert run("check", ".").code == 0
    assert run("check", ".").code == 0
    (project / "compat.py").write_text(COMPAT)
    assert run("check", ".").code == 1, "neither a module of this very moment deceives it"


def test_and_not_otherwise(run: Runner, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = run("check", ".")
    monkeypatch.setattr("xla_migrate.cli.work.read", None)
    assert run("check", ".") == first, "no file was read"


def test_it_is_rewritten_as_one(run: Runner, here: Path) -> None:
    (here / "common.py").write_text(
        "import torch\nimport torch.backends.cudnn as cudnn\n\ncudnn.benchmark = True\n"
    )
    (here / "trainer.py").write_text(
        "from common import *\n\n\nclass Trainer:\n    def __init__(self, net):\n"
        "        self.net = net.cuda()\n"
        "        self.optimizer = torch.optim.SGD(net.parameters(), 0.1)\n"
        "        self.scaler = torch.cuda.amp.GradScaler()\n\n"
        "    def step(self, x):\n        self.scaler.scale(self.net(x.cuda())).backward()\n"
        "        self.scaler.step(self.optimizer)\n        self.scaler.update()\n"
    )
    (here / "main.py").write_text(
        "from trainer import Trainer\nimport torch, common\n\n\ndef main(net):\n"
        "    torch.manual_seed(0)\n    common.cudnn.deterministic = True\n"
        "    trainer = Trainer(net)\n    torch.save(trainer.scaler.state_dict(), 'a.pt')\n"
    )
    _settle()
    assert run(".").code == 0
    texts = {path.name: path.read_text() for path in here.glob("*.py")}
    assert "import torch.backends.cudnn as cudnn" in texts["common.py"], "main.py has it from there"
    assert "xla.GradScaler()" in texts["trainer.py"], "main.py saves its state"
    assert "xla.manual_seed(0)" in texts["main.py"]
    assert "xla.set_cudnn(deterministic=True)" in texts["main.py"]
    for text in texts.values():
        ast.parse(text)
    assert run(".").code == 0
    assert {path.name: path.read_text() for path in here.glob("*.py")} == texts


def test_what_is_verified_is_what_a_run_over_the_folder_writes(run: Runner, here: Path) -> None:
    """The script lies in a folder of the project, and a module that it needs does not."""
    (here / "compat.py").write_text(COMPAT)
    (here / "tools").mkdir()
    (here / "tools" / "train.py").write_text(TRAIN)
    _settle()
    verified = migrated_project(Path("tools/train.py"), unsafe=False).files
    assert run(".").code == 0
    assert {"tools/train.py"} == verified.keys()
    assert (here / "tools" / "train.py").read_bytes() == verified["tools/train.py"]
    assert b"with xla.autocast():" in verified["tools/train.py"]


def test_modules_that_a_run_loads_unexpectedly_are_migrated_then(here: Path) -> None:
    for name in ("train.py", "model.py", "plugin.py"):
        (here / name).write_text("import torch\nx = torch.zeros(2).cuda()\n")
    (here / "train.py").write_text("import model\n")
    found = migrated_project(Path("train.py"), unsafe=False, as_needed=True)
    assert found.files.keys() == {"model.py"}
    found.complete(["train.py", "model.py", "plugin.py"])
    assert found.files.keys() == {"model.py", "plugin.py"}
    assert {finding.path for finding in found.findings} == {"model.py", "plugin.py"}


def test_what_was_found_of_a_part_says_nothing_of_the_whole(run: Runner, here: Path) -> None:
    """Alone, the folder is all there is; within the whole, the module that it imports is there."""
    (here / "compat.py").write_text(COMPAT)
    (here / "tools").mkdir()
    (here / "tools" / "predict.py").write_text(TRAIN)
    _settle()
    assert run("check", "tools").code == 0
    assert "XLA201" in run("check", ".").out
    assert run("check", "tools").code == 0
