"""The command run in this process, in a folder of its own, with a cache of its own."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from xla_migrate.cli import main

CUDA = "import torch\n\nx = torch.ones(2).cuda()\n"
XLA = "import torch\nfrom xla_migrate import runtime as xla\n\nx = torch.ones(2).to(xla.xla_device())\n"
CLEAN = "print('nothing here')\n"

# Names of the user's own give findings of every kind, whatever rules there are.
OWN = """
[tool.xla-migrate.functions]
"mylib.safe" = "synchronize"
"mylib.unsafe" = { to = "synchronize", safety = "unsafe" }
"mylib.by_hand" = "{0}.to({xla}.xla_device())"
"""
SAFE = "import mylib\nmylib.safe()\n"
UNSAFE = "import mylib\nmylib.unsafe()\n"
BY_HAND = "import mylib\nmylib.by_hand(1, 2)\n"


class Result(NamedTuple):
    code: int
    out: str
    err: str


Runner = Callable[..., Result]


ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join(os.path.abspath(p) for p in sys.path)}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("XLA_MIGRATE_CACHE_DIR", str(tmp_path / "cache"))
    return folder


@pytest.fixture
def run(here: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Runner:
    def call(*words: object, stdin: bytes = b"") -> Result:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        capfd.readouterr()
        code = main([str(word) for word in words])
        sys.stdout.flush()
        return Result(code, *capfd.readouterr())

    return call
