"""Standard input to standard output."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from .conftest import BY_HAND, CUDA, ENVIRONMENT, OWN, XLA, Runner


def test_the_new_source_and_nothing_else(run: Runner) -> None:
    result = run("-", stdin=CUDA.encode())
    assert result == (0, XLA, "1 of 1 finding migrated in 1 file.\n")
    assert run("-", stdin=XLA.encode()).out == XLA


def test_bytes_are_kept(here: Path) -> None:
    source = b"# coding: latin-1\r\nimport torch\r\ns = '\xe9'\r\n"
    command = [sys.executable, "-m", "xla_migrate", "-", "-q"]
    answer = subprocess.run(command, input=source, capture_output=True, env=ENVIRONMENT, check=True)
    assert answer.stdout == source


def test_what_is_left_goes_to_stderr(run: Runner, here: Path) -> None:
    (here / "pyproject.toml").write_text(OWN)
    result = run("-", "--stdin-filename", "sub/a.py", stdin=BY_HAND.encode())
    assert result.code == 1
    assert result.out == BY_HAND
    assert result.err.startswith("sub/a.py:2:1: XLA003 ")


def test_check_and_diff(run: Runner) -> None:
    assert run("check", "-", stdin=CUDA.encode()).out.startswith("<stdin>:3:5: XLA101 [*] ")
    assert run("--check", "-", stdin=CUDA.encode()).code == 1
    result = run("--diff", "-", "--stdin-filename", "a.py", stdin=CUDA.encode())
    assert (result.code, result.out[:22]) == (1, "--- a.py\n+++ a.py\n@@ -")
    report = json.loads(run("check", "-", "--output-format", "json", stdin=CUDA.encode()).out)
    assert report["findings"][0]["path"] == "<stdin>"


def test_bad_input_prints_no_source(run: Runner) -> None:
    result = run("-", stdin=b"def f(:\n")
    assert (result.code, result.out) == (2, "")
    assert result.err.startswith("<stdin>:1:7: XLA001 invalid syntax\n")


def test_notebooks(run: Runner) -> None:
    cell = {"cell_type": "code", "source": [CUDA], "outputs": [], "metadata": {}}
    book = json.dumps({"cells": [cell], "metadata": {}, "nbformat": 4}).encode()
    result = run("-", "--stdin-filename", "a.ipynb", stdin=book)
    assert "".join(json.loads(result.out)["cells"][0]["source"]) == XLA
    assert run("check", "-", "--stdin-filename", "a.ipynb", stdin=book).out.startswith(
        "a.ipynb:cell 1:3:5: XLA101 [*] "
    )


def test_excluded_source_comes_back_as_it_is(run: Runner, here: Path) -> None:
    words = ("--force-exclude", "--stdin-filename", "build/a.py")
    assert run("-", *words, stdin=CUDA.encode()) == (0, CUDA, "")
    assert run("check", "-", *words, stdin=CUDA.encode()) == (0, "", "")
    assert run("--diff", "-", *words, stdin=CUDA.encode()) == (0, "", "")
    assert run("-", "--stdin-filename", "build/a.py", stdin=CUDA.encode()).out == XLA
