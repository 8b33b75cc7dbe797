"""A notebook's cells as a script that runs them as a kernel would."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from xla_migrate.verify.experiments.notebook import NotebookScriptError, as_script


def notebook(*cells: str, language: str = "python") -> bytes:
    made = [{"cell_type": "code", "source": cell.splitlines(keepends=True)} for cell in cells]
    made.insert(0, {"cell_type": "markdown", "source": ["# title"]})
    return json.dumps({"cells": made, "metadata": {"kernelspec": {"language": language}}}).encode()


def printed(tmp_path: Path, *cells: str) -> str:
    file = tmp_path / "n.ipynb"
    file.write_text(as_script(notebook(*cells), "n.ipynb").text)
    done = subprocess.run(
        [sys.executable, str(file)], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    return done.stdout


def test_cells_run_in_one_namespace_with_their_magics(tmp_path: Path) -> None:
    out = printed(
        tmp_path,
        "%matplotlib inline\n!pip install nothing\nimport os\nx = 2",
        "%%time\nfor _ in range(2):\n    %time x += 1\nprint(x)",
        "names = !echo one; echo two\nprint(names)\ndisplay(x)\nx?",
        "%env MODE=fast\nprint(os.environ['MODE'])",
        "%%writefile made.txt\nhello\n",
        "print(open('made.txt').read())",
        "%timeit -n 3 x\nprint('percent', 7 % 4)",
    )
    assert out.split() == ["4", "['one',", "'two']", "4", "fast", "hello", "percent", "3"]


def test_lines_are_found_again() -> None:
    script = as_script(notebook("a = 1\nb = 2", "%%time\nc = 3\nd = 4"), "n.ipynb")
    lines = script.text.splitlines()
    assert lines[script.line(2, 2) - 1] == "b = 2"
    assert lines[script.line(3, 3) - 1] == "d = 4"


@pytest.mark.parametrize(
    ("cells", "words"),
    [
        (["%%cython\ncdef int x"], "n.ipynb: cell 2: verify does not run the cell magic %%cython"),
        (["a = 1\n%sql select"], "n.ipynb: cell 2: verify does not run the magic %sql"),
    ],
)
def test_what_cannot_be_run_is_refused_in_one_line(cells: list[str], words: str) -> None:
    with pytest.raises(NotebookScriptError, match=words) as raised:
        as_script(notebook(*cells), "n.ipynb")
    assert os.linesep not in str(raised.value)


def test_other_languages_and_other_files_are_refused() -> None:
    with pytest.raises(NotebookScriptError, match="its kernel runs julia, not Python"):
        as_script(notebook("1", language="julia"), "n.ipynb")
    with pytest.raises(NotebookScriptError, match=r"n\.ipynb: no notebook"):
        as_script(b"{}", "n.ipynb")
