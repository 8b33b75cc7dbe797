"""`cuda` of one's own classes: neither moved nor counted."""

from __future__ import annotations

import pytest

from xla_codemods.analysis.projects.project import Modules, Project
from xla_codemods.engine import Options, migrate

from ...helpers import migrated
from ..lines import codes, line

OWN = """class Wheel:
    def cuda(self, n):
        return n
class Bike(Wheel):
    def cuda(self, n):
        return super().cuda(n)
Bike().cuda(3)
"""


def test_it_is_no_second_device() -> None:
    source = f"{OWN}model.cuda()"
    assert codes(source) == ["XLA101"]


def test_it_stays() -> None:
    assert line(OWN) == OWN


def test_a_modules_own_hands_on_to_the_next() -> None:
    source = """class A(torch.nn.Module):
    def cuda(self):
        return super().cuda()
class B(A):
    def cuda(self):
        return super().cuda()
"""
    first = source.replace("super().cuda()", "super().to(xla.xla_device())", 1)
    assert line(source) == first


MOVED = """
import torch

class Batch:
    def __init__(self, x):
        self.x = x

    def to(self, {parameters}):
        {body}

def main(model, x, loss):
    loss.backward()
    return Batch(x).to("cuda")
"""


@pytest.mark.parametrize(
    ("parameters", "body", "is_device"),
    [
        ("device", "return Batch(self.x.to(device))", True),
        ("d", "return Batch(self.x.to(d))", True),
        ("where", "self.x = self.x.to(where); return self", True),
        ("*args, **kwargs", "return Batch(self.x.to(*args, **kwargs))", True),
        ("target", "self.device = target", True),
        ("language", "return {'cuda': '__global__'}[language]", False),
        ("target", "print(target)", False),
    ],
)
def test_the_to_of_a_class_of_ones_own(parameters: str, body: str, is_device: bool) -> None:
    result = migrated(MOVED.format(parameters=parameters, body=body))
    assert ('to("cuda")' not in result) is is_device


PROGRAM = """
import argparse
{imports}

def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
    print(parser.parse_args().device)

if __name__ == "__main__":
    main()
"""


@pytest.mark.parametrize(
    ("imports", "rewritten"),
    [
        ("import jinja2", False),
        ("import subprocess, yaml", False),
        ("import numpy as np", False),
        ("import torch", True),
        ("from transformers import Trainer", True),
        ("import somebodys_trainer", True),
        ("from . import model", True),
    ],
)
def test_the_option_of_a_program_without_torch(imports: str, rewritten: bool) -> None:
    assert ("xla." in migrated(PROGRAM.format(imports=imports))) is rewritten


@pytest.mark.parametrize(
    ("others", "rewritten"),
    [
        ({}, False),
        ({"other.py": "import torch\n"}, False),
        ({"train.py": "import torch\nimport main\n"}, True),
        ({"train.py": "import torch\nfrom main import main\n"}, True),
        ({"run.py": "import main\nimport train\n", "train.py": "import torch\n"}, True),
        ({"main_helper.py": "x = 1\n"}, False),
    ],
)
def test_it_is_a_module_of_one_with_torch(others: dict[str, str], rewritten: bool) -> None:
    files = {"main.py": PROGRAM.format(imports="")} | others
    modules = Modules({path: text.encode() for path, text in files.items()})
    result = migrate(modules.files["main.py"], Options(), "main.py", Project(modules, "main.py"))
    assert (b"xla." in result.data) is rewritten
