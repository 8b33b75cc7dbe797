"""Writes to views of a tensor are found through any number of names."""

from __future__ import annotations

import ast

import pytest

from xla_codemods.analysis.script import Script
from xla_codemods.analysis.training.shapes.cutting import is_written_to
from xla_codemods.source import Source

NAMES = "\n    ".join(f"v{n} = v{n - 1}" for n in range(1, 9))


@pytest.mark.parametrize(
    ("body", "written"),
    [
        (f"v0 = x[i:]\n    {NAMES}\n    v8.fill_(0)", True),
        (f"v0 = x[i:]\n    {NAMES}\n    print(v8)", False),
        ("v0 = x[i:]\n    v0 += 1", True),
        ("a, v0 = y, x[i:]\n    v0.view(-1)[0] = 1", True),
        ("a, v0 = x[i:], y\n    v0.view(-1)[0] = 1", False),
        ("torch.add(y, 1, out=x[i:])", True),
        ("torch.nn.init.normal_(x[i:])", True),
        ("(v0 := x[i:]).mul_(2)", True),
        ("v0 = x[i:]\n    v1 = v0\n    v0 = v1", False),
    ],
)
def test_writes_to_views(body: str, written: bool) -> None:
    script = Script(Source(f"import torch\ndef f(x, y, i):\n    {body}\n".encode()))
    (node,) = (n for n, _ in script.index.of(ast.Subscript) if ast.unparse(n) == "x[i:]")
    assert is_written_to(script, node) is written
