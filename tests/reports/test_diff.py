"""Diffs that `patch` takes."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from xla_migrate.reports.diff import difference, in_original
from xla_migrate.results import Diagnostic

ROW = Diagnostic("XLA101", "cuda-method", "is left", 1, 1, 1, 1, "error", "low", None)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"a\nb\nc\n", b"a\nB\nc\nd\n"),
        (b"a\r\nb\r\n", b"a\r\nB\r\n"),
        (b"a\nb", b"a\nb\nc"),
        (b"a\nb", b"a\nb\n"),
        (b"# coding: latin-1\n'\xe9'\nx\n", b"# coding: latin-1\n'\xe9'\ny\n"),
        (b"a\x0cb\x1cc\ncr\rlf\n", b"a\x0cb\x1cC\ncr\rlf\n"),
    ],
)
def test_patch_makes_the_new_of_the_old(tmp_path: Path, old: bytes, new: bytes) -> None:
    (tmp_path / "a.py").write_bytes(old)
    subprocess.run(
        ["git", "apply", "-p0", "--unidiff-zero", "-"],
        input=difference(old, new, "a.py"),
        cwd=tmp_path,
        check=True,
    )
    assert (tmp_path / "a.py").read_bytes() == new


def test_of_a_notebook_the_cells_are_compared() -> None:
    def book(source: str) -> bytes:
        cell = {"cell_type": "code", "metadata": {}, "outputs": ["x"], "source": [source]}
        return json.dumps({"cells": [{"cell_type": "markdown", "source": ["#"]}, cell]}).encode()

    assert difference(book("a = 1\nb"), book("a = 2\nb"), "nb.ipynb").decode() == (
        "--- nb.ipynb:cell 2\n+++ nb.ipynb:cell 2\n@@ -1,2 +1,2 @@\n-a = 1\n+a = 2\n b\n"
    )


def test_a_finding_on_a_changed_line_has_the_line_that_it_is_most_like() -> None:
    old = b"import torch\ndef a(i): return torch.device('cuda')\ndef b(): return [torch.device(i) for i in x]\nend\n"
    new = b"import torch\nimport xla\ndef a(i): return xla.device()\ndef b(): return [xla.device(i) for i in x]\nend\n"
    rows = tuple(ROW.replace(line=line, end_line=line) for line in (2, 3, 4, 5))
    assert [row.line for row in in_original(rows, old, new, "it.py")] == [2, 2, 3, 4]
