"""Names of CUDA devices that reach torch on ways which are not followed are named."""

from __future__ import annotations

import textwrap

import pytest

from xla_codemods.engine import Options, check, migrate

HEAD = """\
import os, operator
import torch
from torch import nn

def put(t, where): return t.to(where)
def entry(t, c): return t.to(c["w"])
def pick(kind): return torch.device("cpu") if "u" in kind else torch.device("meta")
class Mover:
    def go(self, t, where): return t.to(where)

def run(x, rank, m):
"""
WAYS = """
w = ":".join(["cuda", str(rank)]); x.to(w)
w = "cpu"; w = w.replace("cpu", "cuda"); x.to(w)
(w, n), k = ("cuda", 2), 3; x.to(w)
x.to(next(iter(["cuda"])))
w = os.environ.get("W", "cuda"); x.to(w)
w = os.environ.setdefault("W", "cuda"); torch.zeros(2, device=w)
put(x, *["cuda"])
put(**{"t": x, "where": "cuda"})
entry(x, {"w": "cuda"})
Mover().go(x, *("cuda",))
torch.Tensor.to(x, "cuda")
nn.Module.to(m, "cuda:0")
operator.methodcaller("to", "cuda")(x)
torch.device(*("cuda", 0))
for i, w in enumerate(["cpu", "cuda"]): x.to(w)
for w, k in zip(["cuda", "cpu"], [1, 2]): x.to(w)
for w, k in [("cuda", 1), ("cpu", 2)]: torch.ones(2, device=w)
"""
OTHERS = """
w = {"cuda": "cpu"}[rank]; x.to(w)
w = "cpu" if rank == "cuda" else "meta"; x.to(w)
w = os.environ.get("cuda", "cpu"); x.to(w)
w = "cuda"; print(w, x.to("cpu"))
x.to(pick("cuda"))
names = ["cuda", "cpu"]; print(names); x.to("cpu")
"""


def _program(line: str) -> str:
    lines = [line] if line.startswith("for") else line.split("; ")
    return HEAD + textwrap.indent("\n".join(lines), "    ") + "\n"


@pytest.mark.parametrize("line", WAYS.strip().splitlines())
def test_ways(line: str) -> None:
    source = _program(line).encode()
    assert [f.code for f in check(source)] == ["XLA105"]
    assert b'"cuda' not in migrate(source, Options(unsafe=True)).data


@pytest.mark.parametrize("line", OTHERS.strip().splitlines())
def test_others(line: str) -> None:
    assert check(_program(line).encode()) == []


FIELDS = """\
import torch
from dataclasses import dataclass, field

@dataclass
class Config:
    {field}
    named: str = "cuda"

def run(x, config):
    x.to({read})
"""


@pytest.mark.parametrize(
    ("field", "read"),
    [
        ('where: str = "cuda"', "config.where"),
        ('where = "cuda"', "config.where"),
        ('where: str = field(default="cuda")', "config.where"),
        ('where: str = field(default_factory=lambda: "cuda")', "config.where"),
        ('places: list = field(default_factory=lambda: ["cuda:0"])', "config.places[0]"),
        ('kinds: dict = field(default_factory=lambda: {"a": "cuda"})', 'config.kinds["a"]'),
    ],
)
def test_a_default_of_a_class_is_followed_to_where_it_is_read(field: str, read: str) -> None:
    program = FIELDS.format(field=field, read=read)
    assert [(f.code, f.line) for f in check(program.encode())] == [("XLA105", 6)]
