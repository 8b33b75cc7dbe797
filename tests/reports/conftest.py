"""A run with one of everything that reports tell."""

from __future__ import annotations

import pytest

from xla_migrate.results import Outcome, Row, Run, Verdict, cannot_parse


def row(code: str = "XLA101", line: int = 1, **fields: object) -> Row:
    base = Row(code, "cuda-method", "`.cuda()` needs a CUDA device", line, 5, line, 12)
    return base.replace(safety="safe", text=f"line {line}").replace(**fields)


@pytest.fixture
def checked() -> Run:
    return Run(
        (
            Outcome("broken.py", Verdict((cannot_parse("invalid syntax", 2, 7),), failed=True)),
            Outcome("clean.py", Verdict()),
            Outcome("gone.py", Verdict(problem="No such file or directory", failed=True)),
            Outcome("nb.ipynb", Verdict((row(line=2, cell=3),))),
            Outcome(
                "src/a.py",
                Verdict(
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
            Outcome("a.py", Verdict(migrated=(row(), row(line=2))), written=True, copy="a.py.orig"),
            Outcome(
                "b.py",
                Verdict(
                    (row(line=9), row("XLA103", safety=None)), notes=((9, None, "a form feed"),)
                ),
            ),
        ),
        rewriting=True,
    )
