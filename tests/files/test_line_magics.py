"""Line magics that run Python: their code is part of the program, at its own columns, and comes back behind them."""

from __future__ import annotations

import pytest

from xla_migrate.files.line_magics import opened
from xla_migrate.files.notebook import Notebook

from .test_notebook import code, notebook


def book(*lines: str) -> Notebook:
    import json

    return Notebook(json.dumps(notebook(code("import torch\n", *lines))).encode())


@pytest.mark.parametrize(
    ("line", "before"),
    [
        ("%time x = f()", "%time "),
        ("    %time f()", "%time "),
        ("%timeit -n 10 -r3 -o f(x)", "%timeit -n 10 -r3 -o "),
        ("%prun -l 10 -s cumtime f()", "%prun -l 10 -s cumtime "),
        ("%lprun -f model.forward f()", "%lprun -f model.forward "),
        ("%memit f(); g()", "%memit "),
        ("%time --no-raise-error f()", "%time --no-raise-error "),
    ],
)
def test_code_stands_where_it_stood(line: str, before: str) -> None:
    found = opened(line)
    assert found is not None
    assert found[0] == before
    assert len(found[1]) == len(line)
    assert found[1].endswith(line.partition(before)[2])


@pytest.mark.parametrize(
    "line",
    ["%time", "%time ", "%time for x in y: f(x)", "%time !ls", "%timex f()", "%cd f()", "!time f()", "%time f(", "%time f() \\"],
)  # fmt: skip
def test_what_is_none(line: str) -> None:
    assert opened(line) is None


def test_they_come_back() -> None:
    lines = "%time x = f().cuda()\n", "if x:\n", "    %timeit -n 3 g(x)\n", "%time  torch.z()"
    parsed = book(*lines)
    changed = parsed.program.replace("f().cuda()", "f().to(d)")
    assert "torch.z()" in changed
    changed = changed.replace(";   torch.z()", "")  # what a removed statement leaves
    text = "".join(Notebook(parsed.rebuilt(changed)).texts().values())
    assert text == ("import torch\n%time x = f().to(d)\nif x:\n    %timeit -n 3 g(x)\n%time  pass")


def test_beside_the_same_number_they_are_kept_whole() -> None:
    parsed = book("%time f()\n", "y = 0e0")
    assert "f()" not in parsed.program


def test_the_first_of_two_cell_magics_stays_the_first() -> None:
    import json

    cells = notebook(code("%%time\n", "%%capture\n", "x = 1"))
    parsed = Notebook(json.dumps(cells).encode())
    text = Notebook(parsed.rebuilt(parsed.program.replace("x = 1", "x = 2"))).texts()[1]
    assert text == "%%time\n%%capture\nx = 2"
