"""`verify` after a migration in place compares with the real original, and rejects what was changed by hand since."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from .. import warm

pytestmark = pytest.mark.e2e

FILES = {
    "config.py": "LR = 0.1\n",
    "model.py": """\
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(4, 2)
        self.register_buffer("scale", torch.ones(2).cuda())

    def forward(self, x):
        return self.fc(x) * self.scale.to(x.device)
""",
    "train.py": """\
import torch
from config import LR
from model import Net

torch.manual_seed(0)
net = Net().cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=LR)
for step in range(4):
    x, y = torch.randn(8, 4).cuda(), torch.randint(0, 2, (8,)).cuda()
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(net(x), y)
    loss.backward()
    optimizer.step()
""",
}


def command(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [warm.choosing(), "-m", "xla_migrate", *words], cwd=folder, capture_output=True, text=True
    )


def verified(folder: Path, *words: str) -> dict[str, Any]:
    options = ("--steps", "4", "--no-report", "--output-format", "json")
    done = command(folder, "verify", "train.py", *options, *words)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def git(folder: Path, *words: str) -> None:
    who = ["-c", "user.email=a@example.org", "-c", "user.name=a"]
    subprocess.run(["git", "-C", str(folder), *who, *words], check=True, capture_output=True)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    for name, text in FILES.items():
        (folder / name).write_text(text)
    return folder


def replace(file: Path, old: str, new: str) -> None:
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))


def test_in_place_without_git(project: Path) -> None:
    assert command(project, ".").returncode == 0
    sound = verified(project)
    assert (sound["status"], sound["settings"]["original"]) == (
        "proven",
        "train.py.orig, model.py.orig, config.py as it is now",
    )
    replace(project / "train.py", "lr=LR", "lr=LR * 100")
    assert verified(project)["status"] == "differs"


def test_in_git_a_change_of_a_module_that_needs_no_migration(project: Path) -> None:
    git(project, "init", "-q")
    git(project, "add", "-A")
    git(project, "commit", "-qm", "original")
    assert command(project, ".").returncode == 0
    git(project, "commit", "-qam", "migrated")
    replace(project / "config.py", "0.1", "10.0")
    found = verified(project)
    assert found["status"] == "differs"
    assert found["settings"]["original"].startswith("git ")


def test_a_folder_that_was_finished_by_hand(project: Path, tmp_path: Path) -> None:
    done = tmp_path / "done"
    shutil.copytree(project, done)
    assert command(done, ".").returncode == 0
    assert verified(project, "--migrated", str(done))["status"] == "proven"
    replace(done / "model.py", "* self.scale", "* 9 * self.scale")
    assert verified(project, "--migrated", str(done / "train.py"))["status"] == "differs"
    assert verified(done, "--against", str(project))["status"] == "differs"


def test_a_script_that_was_finished_by_hand_gets_migrated_modules(project: Path) -> None:
    assert command(project, "train.py", "--output", "finished.py").returncode == 0
    assert verified(project, "--migrated", "finished.py")["status"] == "proven"


def test_without_an_original_the_exit_code_is_2(project: Path) -> None:
    assert command(project, ".").returncode == 0
    for copy in project.glob("*.orig"):
        copy.unlink()
    done = command(project, "verify", "train.py", "--no-report")
    assert done.returncode == 2
    assert "--against REV" in done.stderr
    assert len(done.stderr.splitlines()) == 1
