"""A test for CUDA that an attribute holds stays as it is if all that it chooses is for CUDA only."""

from __future__ import annotations

import pytest

from xla_codemods.analysis.projects.project import Modules, Project
from xla_codemods.engine import migrate

from ...helpers import migrated

CLASS = """\
import torch

class Monitor:
    def __init__(self, pin):
        self.{name} = {test}

    def start(self, x):
        if {use}:
            {body}
        return x
"""
MONITOR = "import pynvml; pynvml.nvmlInit()"
PIN = "x = x.pin_memory()"


@pytest.mark.parametrize(
    ("test", "use", "body"),
    [
        ("torch.cuda.is_available()", "self.ready", MONITOR),
        ("torch.cuda.is_available()", "self.ready and x is not None", MONITOR),
        ("torch.cuda.is_available() and pin", "self.ready", PIN),
        ("not pin and torch.cuda.is_available()", "self.ready", PIN),
        ("torch.cuda.is_available()", "self.ready", f"for y in x:\n                {PIN}"),
    ],
)
def test_a_test_that_is_kept(test: str, use: str, body: str) -> None:
    source = CLASS.format(name="ready", test=test, use=use, body=body)
    assert migrated(source) == source


@pytest.mark.parametrize("more", ["x = x.cuda()", "self.count = 1 if self.ready else 2"])
def test_a_test_that_chooses_other_code_too(more: str) -> None:
    source = CLASS.format(
        name="ready", test="torch.cuda.is_available()", use="self.ready", body=MONITOR
    )
    result = migrated(
        source.replace(
            "        return x\n", f"        if self.ready:\n            {more}\n        return x\n"
        )
    )
    assert "self.ready = xla.is_available()" in result


def test_an_attribute_that_another_module_reads() -> None:
    source = CLASS.format(
        name="ready", test="torch.cuda.is_available()", use="self.ready", body=MONITOR
    )
    other = "from monitor import Monitor\nm = Monitor(0)\nif m.ready:\n    m.model.cuda()\n"
    known = Modules({"monitor.py": source.encode(), "main.py": other.encode()})
    done = migrate(source.encode(), path="monitor.py", project=Project(known, "monitor.py"))
    assert b"self.ready = xla.is_available()" in done.data
