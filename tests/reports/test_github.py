"""GitHub annotations, escaped as the runner unescapes them."""

from __future__ import annotations

from xla_migrate.reports import github
from xla_migrate.results import FileOutcome, FileVerdict, Run

from .conftest import row


def test_commands(checked: Run) -> None:
    assert list(github.lines(checked)) == [
        "::error title=xla-migrate (XLA001),file=broken.py,line=2,endLine=2,col=7,endColumn=7::invalid syntax",
        "::error title=xla-migrate,file=gone.py::No such file or directory",
        "::error title=xla-migrate (XLA101),file=nb.ipynb::cell 3, line 2: `.cuda()` fails on an XLA host: use `.to(xla.xla_device())`",
        "::error title=xla-migrate (XLA101),file=src/a.py,line=1,endLine=2::`.cuda()` fails on an XLA host: use `.to(xla.xla_device())`",
        "::warning title=xla-migrate (XLA102),file=src/a.py,line=3,endLine=3,col=5,endColumn=12::"
        "`.cuda()` fails on an XLA host: use `.to(xla.xla_device())`",
        "::error title=xla-migrate (XLA103),file=src/a.py,line=4,endLine=4,col=5,endColumn=12::50%25 of: a,%0Ab",
        "::notice title=xla-migrate (XLA104),file=src/a.py,line=5,endLine=5,col=5,endColumn=12::"
        "`.cuda()` fails on an XLA host: use `.to(xla.xla_device())`",
    ]


def test_values_are_escaped_more_than_messages() -> None:
    run = Run((FileOutcome("a,b:c%\r\n.py", FileVerdict((row(message="a: b, c\r"),))),))
    (line,) = github.lines(run)
    assert "file=a%2Cb%3Ac%25%0D%0A.py,line=1" in line
    assert line.endswith("::a: b, c%0D")
