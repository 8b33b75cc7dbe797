"""Notebooks through the command."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from .conftest import Runner

CELLS = [
    "%matplotlib inline\nimport torch\nfrom torch import nn",
    "!pip install torch\nmodel = nn.Linear(2, 2).cuda()",
    "%%bash\necho model.cuda()",
    "model.cuda()  # again",
]


def book(*sources: str) -> str:
    cells: list[dict[str, Any]] = [
        {"cell_type": "markdown", "metadata": {}, "source": ["model.cuda()"]}
    ]
    for source in sources:
        cell = {
            "cell_type": "code",
            "execution_count": 1,
            "metadata": {},
            "outputs": [{"text": ["model.cuda()"]}],
            "source": source.splitlines(keepends=True),
        }
        cells.append(cell)
    return (
        json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}, indent=1)
        + "\n"
    )


@pytest.fixture
def notebook(here: Path) -> Path:
    path = here / "train.ipynb"
    path.write_text(book(*CELLS))
    return path


def test_findings_have_the_cells_number(run: Runner, notebook: Path) -> None:
    assert run("check", ".").out.splitlines()[:2] == [
        "train.ipynb:cell 3:2:9: XLA101 [*] `.cuda()` fails on an XLA host: use `.to(xla.xla_device())`",
        "train.ipynb:cell 5:1:1: XLA101 [*] `.cuda()` fails on an XLA host: use `.to(xla.xla_device())`",
    ]
    report = json.loads(run("check", "--output-format", "json", ".").out)
    assert [(f["cell"], f["line"]) for f in report["findings"]] == [(3, 2), (5, 1)]


def test_cells_are_rewritten_together(run: Runner, notebook: Path) -> None:
    assert run("train.ipynb").code == 0
    new = [
        CELLS[0] + "\nfrom xla_migrate import runtime as xla",
        "!pip install torch\nmodel = nn.Linear(2, 2).to(xla.xla_device())",
        CELLS[2],
        "model.to(xla.xla_device())  # again",
    ]
    assert notebook.read_text() == book(*new)
    assert (notebook.parent / "train.ipynb.orig").read_text() == book(*CELLS)
    assert run("train.ipynb").out == "Nothing to migrate in 1 file.\n"
    assert notebook.read_text() == book(*new)


def test_the_diff_is_that_of_cells(run: Runner, notebook: Path) -> None:
    out = run("--diff", ".").out
    assert out.count("--- train.ipynb:cell ") == 3
    assert "+++ train.ipynb:cell 5\n@@ -1 +1 @@\n-model.cuda()  # again\n" in out


def test_bad_cells_and_bad_notebooks(run: Runner, here: Path) -> None:
    (here / "a.ipynb").write_text(book("import torch", "def f(:"))
    (here / "b.ipynb").write_text('{"cells": ["torch"')
    (here / "c.ipynb").write_text("torch")
    before = {path.name: path.read_text() for path in here.iterdir()}
    for words in (["check", "."], ["."], ["--diff", "."]):
        result = run(*words)
        assert result.code == 2
        told = (result.out + result.err).splitlines()
        assert told[0] == "a.ipynb:cell 3:1:7: XLA001 invalid syntax"
        assert told[1].startswith("b.ipynb:1:12: XLA001 no notebook: ")
        assert told[2].startswith("c.ipynb:1:1: XLA001 no notebook: ")
    assert {path.name: path.read_text() for path in here.iterdir()} == before


def test_a_lone_surrogate_is_told(run: Runner, here: Path) -> None:
    (here / "a.ipynb").write_text(
        '{"cells": [{"cell_type": "code", "source": "torch = \'\\ud800\'"}]}'
    )
    result = run("check", "a.ipynb")
    assert result.code == 2
    assert "a.ipynb:cell 1:1:1: XLA001" in result.out
    assert "surrogates not allowed" in result.out


def test_a_notebook_of_another_language_has_nothing_for_us(run: Runner, here: Path) -> None:
    text = book("torch <- 1 +").replace(
        '"metadata": {},\n "nbformat"', '"metadata": {"language_info": {"name": "R"}},\n "nbformat"'
    )
    (here / "a.ipynb").write_text(text)
    assert run("a.ipynb").code == 0
    assert (here / "a.ipynb").read_text() == text


BESIDE_PYTHON = (
    "!nvidia-smi\n!pip install -q flash-attn \\\n    'torch==2.9.0+cu128'",
    "found = !nvidia-smi --list-gpus\nprint('!nvidia-smi')",
    "%pip install apex\n%env CUDA_VISIBLE_DEVICES=0",
    "%%bash\nset -e\ntorchrun --nproc_per_node=gpu train.py",
    "%%writefile train.py\nimport torch\nx = torch.ones(2).cuda()",
    "%%writefile -a requirements.txt\ncupy",
    "%%html\n<b>nvidia-smi</b>",
    'text = """\n!nvidia-smi\n"""\nif True:\n    !nvcc --version',
)


def test_commands_and_files_of_cells_are_told_and_left(run: Runner, here: Path) -> None:
    (here / "a.ipynb").write_text(text := book(*BESIDE_PYTHON))
    rows = json.loads(run("check", "--output-format", "json", ".").out)["findings"]
    assert [(f["cell"], f["line"], f["code"], f["severity"]) for f in rows] == [
        (2, 1, "XLA957", "info"),  # it fails, and the notebook goes on
        (2, 2, "XLA953", "error"),
        (2, 3, "XLA952", "error"),
        (3, 1, "XLA957", "warning"),
        (4, 1, "XLA953", "error"),
        (5, 3, "XLA956", "error"),
        (6, 3, "XLA101", "error"),
        (7, 2, "XLA953", "error"),
        (9, 5, "XLA957", "warning"),
    ]
    assert {f["safety"] for f in rows} == {None}
    assert run("a.ipynb").code == 1
    assert (here / "a.ipynb").read_text() == text
    assert run("check", "--ignore", "XLA9,XLA101", ".").code == 0


def test_their_places_are_those_of_the_new_notebook(run: Runner, here: Path) -> None:
    (here / "a.ipynb").write_text(
        book("import torch\nx = torch.ones(2).cuda()\n!pip install apex", "%%sh\nnvcc a.cu")
    )
    assert run("--diff", "a.ipynb").err.splitlines()[:2] == [
        "a.ipynb:cell 2:3:14: XLA953 apex is built by nvcc, which an XLA host does not have: the installation fails",
        "a.ipynb:cell 3:2:1: XLA957 nvcc does not exist on an XLA host",
    ]
    assert run("a.ipynb").out.splitlines()[0].startswith("a.ipynb:cell 2:4:14: XLA953 ")


def test_names_that_a_module_hands_on_are_what_they_were(run: Runner, here: Path) -> None:
    (here / "utils.py").write_text("from torch.cuda.amp import autocast\n")
    (here / "a.ipynb").write_text(
        book(
            "from torch import nn\nfrom utils import autocast\nmodel = nn.Linear(2, 2).cuda()",
            "with autocast():\n    model(x.cuda()).sum().backward()",
        )
    )
    assert run("a.ipynb").code == 0
    assert "with xla.autocast():" in (here / "a.ipynb").read_text()
