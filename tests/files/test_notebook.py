"""Notebooks: one program out of their cells, and back, byte for byte where nothing changed."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xla_migrate.files.notebook import Notebook, NotebookError


def code(*lines: str) -> dict[str, Any]:
    return {
        "cell_type": "code",
        "execution_count": 3,
        "metadata": {"tags": ["é"]},
        "outputs": [{"output_type": "stream", "name": "stdout", "text": ["x.cuda() é\n"]}],
        "source": list(lines),
    }


def notebook(*cells: dict[str, Any], language: str = "python") -> dict[str, Any]:
    return {
        "cells": list(cells),
        "metadata": {"kernelspec": {"name": "k", "language": language}},
        "nbformat": 4,
        "nbformat_minor": 5,
    }


def markdown(text: str) -> dict[str, Any]:
    return {"cell_type": "markdown", "metadata": {}, "source": [text]}


STYLES = [
    {"indent": 1, "ensure_ascii": False},
    {"indent": 2, "ensure_ascii": True},
    {"indent": 4, "sort_keys": True},
    {"separators": (",", ":")},
    {},
]


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("end", ["\n", "", "\r\n"])
def test_unchanged_is_the_same_bytes(style: dict[str, Any], end: str) -> None:
    book = notebook(markdown("# é"), code("x = 1\n", "y = 'é'"), code(), code("%time f()\n", "z\n"))
    data = (json.dumps(book, **style) + end).encode()
    parsed = Notebook(data)
    assert parsed.rebuilt(parsed.program) == data


@pytest.mark.parametrize("style", STYLES)
def test_only_the_changed_source_is_written_anew(style: dict[str, Any]) -> None:
    first, second = code("a = 1\n", "b = 'é'\n", "c = 3"), code("d = 4")
    data = json.dumps(notebook(first, markdown("x"), second), **style).encode()
    parsed = Notebook(data)
    new = parsed.rebuilt(
        parsed.program.replace("a = 1\n", "a = 1\nbb = '√ü'\n").replace("d = 4", "d = 5")
    )
    expected = notebook(
        first | {"source": ["a = 1\n", "bb = '√ü'\n", "b = 'é'\n", "c = 3"]},
        markdown("x"),
        second | {"source": ["d = 5"]},
    )
    assert json.loads(new) == expected
    if style.get("ensure_ascii", True) is False:
        assert new == json.dumps(expected, **style).encode()
    else:
        assert new == json.dumps(expected, **{**style, "ensure_ascii": True}).encode()


def test_a_source_that_is_one_string_stays_one() -> None:
    cell = code() | {"source": "x = 1\ny = 2"}
    data = json.dumps(notebook(cell), indent=1).encode()
    parsed = Notebook(data)
    new = parsed.rebuilt(parsed.program.replace("y = 2", "y = 3\nz = 4"))
    assert json.loads(new)["cells"][0]["source"] == "x = 1\ny = 3\nz = 4"


def test_unusual_escapes_of_unchanged_lines_stay() -> None:
    data = (
        json.dumps(notebook(code("s = 'A'\n", "t = 1"))).encode().replace(b"'A'", b"'\\u0041\\/'")
    )
    parsed = Notebook(data)
    assert "s = 'A/'\n" in parsed.program
    assert b"'\\u0041\\/'" in parsed.rebuilt(parsed.program.replace("t = 1", "t = 2"))


def test_names_carry_over_and_places_are_those_of_cells() -> None:
    cells = (
        markdown("x"),
        code("import torch\n", "a = 1"),
        code("%%bash\n", "ls"),
        code("b = a\n"),
    )
    book = Notebook(json.dumps(notebook(*cells)).encode())
    lines = book.program.split("\n")
    assert lines[0] == "import torch"
    assert book.place(book.program, lines.index("b = a") + 1) == (4, 1)
    assert book.place(book.program, 2) == (2, 2)
    assert book.texts() == {2: "import torch\na = 1", 4: "b = a\n"}


MAGICS = """\
%matplotlib inline
!pip install -q "torch
!nvidia-smi \\
   --query \\
   x
import torch
torch?
torch.nn??
?torch
files = !ls *.py
out, err = %sql select 'it''s
if x:
    %timeit f(
    !rm -r $dir
s = '''
%not a magic
!nor this
'''
t = (10
  % 3,
  "!")
u = v \\
  % 2
%%not_first
"""


def test_magics_are_kept_byte_for_byte() -> None:
    lines = MAGICS.splitlines(keepends=True)[:-1]
    data = json.dumps(notebook(code(*lines), code("w = 1")), indent=1).encode()
    book = Notebook(data)
    for kept in ("%not a magic\n", "!nor this\n", "  % 3,\n", "  % 2\n"):
        assert kept in book.program
    for gone in (
        "%matplotlib",
        "pip",
        "nvidia",
        "query",
        "torch?",
        "?torch",
        "ls *",
        "select",
        "timeit",
        "rm -r",
    ):
        assert gone not in book.program
    assert book.rebuilt(book.program) == data
    new = json.loads(
        book.rebuilt(book.program.replace("w = 1", "w = 2").replace("t = (10", "t = (11"))
    )
    text = "".join(new["cells"][0]["source"])
    assert text == "".join(lines).replace("t = (10", "t = (11")
    assert len(book.program.split("\n")) == len(lines) + 3  # one line for each


def test_magics_follow_the_indentation_of_their_block() -> None:
    book = Notebook(json.dumps(notebook(code("with x:\n", "    %time f()\n", "    y()"))).encode())
    dedented = "\n".join(line.removeprefix("    ") for line in book.program.split("\n")[1:])
    new = json.loads(book.rebuilt(dedented))
    assert new["cells"][0]["source"] == ["%time f()\n", "y()"]


@pytest.mark.parametrize("magic", ["%%time", "%%capture out --no-stderr", "%%timeit -n 3"])
def test_cell_magics_over_python_are_looked_into_and_stay_first(magic: str) -> None:
    book = Notebook(json.dumps(notebook(code(magic + "\n", "x = 1"))).encode())
    assert "x = 1" in book.program
    new = json.loads(book.rebuilt("import y\n" + book.program))
    assert new["cells"][0]["source"] == [magic + "\n", "import y\n", "x = 1"]


@pytest.mark.parametrize("magic", ["%%bash", "%%writefile x.py", "%%html", "%%javascript", "%%sql"])
def test_other_cell_magics_are_kept_whole(magic: str) -> None:
    book = Notebook(json.dumps(notebook(code(magic + "\n", "x.cuda("), code("y = 1"))).encode())
    assert book.texts() == {2: "y = 1"}


def test_other_languages_have_no_python() -> None:
    book = Notebook(json.dumps(notebook(code("x <- 1 +"), language="R")).encode())
    assert book.program.strip() == ""


def test_lost_cells_and_lost_magics_are_refused() -> None:
    book = Notebook(json.dumps(notebook(code("%time x\n", "a = 1"), code("b = 1"))).encode())
    lines = book.program.split("\n")
    with pytest.raises(NotebookError, match="boundaries of its cells were lost"):
        book.rebuilt("\n".join(line for line in lines if not line.endswith("_C")))
    with pytest.raises(NotebookError, match="only IPython understands"):
        book.rebuilt("\n".join(lines[1:]))


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "is missing"),
        (b"[]", "is missing"),
        (b"{", "a key is missing"),
        (b'{"cells": [}', "is missing"),
        (b'{"cells": []', "a comma is missing"),
        (b'{"cells": []} x', "there is text after its end"),
        (b'{"metadata": {}}', "no cells"),
        (b'{"worksheets": []}', "nbconvert"),
        (b'{"cells": [{"cell_type": "code", "source": 3}]}', "source is not text"),
        (b'{"cells": [{"cell_type": "code", "source": ["a", 3]}]}', "source is not text"),
        (b'{"cells": "\xff"}', "cannot be decoded"),
        (b'{"cells": ' + b"[" * 100_000, "no notebook"),
        (b'{"x": ' + b"[" * 100_000, "no notebook"),
    ],
)
def test_what_is_no_notebook(data: bytes, reason: str) -> None:
    with pytest.raises(NotebookError, match=reason) as error:
        Notebook(data)
    assert error.value.cell is None


def test_a_cell_that_is_no_python_is_told_with_its_place() -> None:
    data = json.dumps(notebook(code("x = 1"), markdown("x"), code("a = 1\n", "def f(:\n"))).encode()
    with pytest.raises(NotebookError) as error:
        Notebook(data)
    assert (error.value.cell, error.value.line, error.value.column) == (3, 2, 7)


def test_a_cell_cannot_reach_into_the_next() -> None:
    data = json.dumps(notebook(code("s = '''"), code("'''"))).encode()
    with pytest.raises(NotebookError) as error:
        Notebook(data)
    assert error.value.cell == 1


LINES = st.lists(
    st.sampled_from(
        [
            "x = 1",
            "%time x",
            "!ls 'a",
            "y = !ls",
            "",
            "# é",
            "if x:\n    %pip y",
            "z?",
            "s = '''\n!a\n'''",
        ]
    ),
    max_size=5,
)


@given(st.lists(LINES, max_size=4), st.sampled_from(STYLES), st.booleans())
def test_any_notebook_comes_back(
    cells: list[list[str]], style: dict[str, Any], as_text: bool
) -> None:
    built = []
    for lines in cells:
        text = "\n".join(lines)
        cell = code() | {"source": text if as_text else text.splitlines(keepends=True)}
        built.append(cell)
    data = json.dumps(notebook(*built), **style).encode()
    book = Notebook(data)
    assert book.rebuilt(book.program) == data
    grown = book.rebuilt("added = 1\n" + book.program)
    expected = ["".join(c["source"]) for c in built]
    if expected:
        expected[0] = "added = 1\n" + expected[0]
        assert ["".join(c["source"]) for c in json.loads(grown)["cells"]] == expected
