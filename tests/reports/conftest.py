"""A run with one of everything that reports tell."""

from __future__ import annotations

import pytest

from xla_migrate.results import Diagnostic, FileOutcome, FileVerdict, Run, cannot_parse


def row(code: str = "XLA101", line: int = 1, **fields: object) -> Diagnostic:
    base = Diagnostic(
        code,
        "cuda-method",
        "`.cuda()` fails on an XLA host: use `.to(xla.xla_device())`",
        line,
        5,
        line,
        12,
    )
    return base.replace(safety="safe", text=f"line {line}").replace(**fields)


@pytest.fixture
def checked() -> Run:
    return Run(
        (
            FileOutcome(
                "broken.py", FileVerdict((cannot_parse("invalid syntax", 2, 7),), failed=True)
            ),
            FileOutcome("clean.py", FileVerdict()),
            FileOutcome("gone.py", FileVerdict(problem="No such file or directory", failed=True)),
            FileOutcome("nb.ipynb", FileVerdict((row(line=2, cell=3),))),
            FileOutcome(
                "src/a.py",
                FileVerdict(
                    (
                        row(line=1, end_line=2),
                        row("XLA102", 3, safety="unsafe", severity="warning", effort="medium"),
                        row("XLA103", 4, safety=None, effort="high", message="50% of: a,\nb"),
                        row("XLA104", 5, safety=None, severity="info"),
                    )
                ),
            ),
        )
    )


@pytest.fixture
def rewritten() -> Run:
    return Run(
        (
            FileOutcome(
                "a.py", FileVerdict(migrated=(row(), row(line=2))), written=True, copy="a.py.orig"
            ),
            FileOutcome(
                "b.py",
                FileVerdict(
                    (row(line=9), row("XLA103", safety=None)), notes=((9, None, "a form feed"),)
                ),
            ),
        ),
        rewriting=True,
    )
