"""Tables in place of the list."""

from __future__ import annotations

from xla_migrate.reports import tables
from xla_migrate.results import Run


def test_statistics(checked: Run) -> None:
    assert list(tables.statistics(checked)) == [
        "2  XLA101  [*] cuda-method",
        "1  XLA001      cannot-parse",
        "1  XLA102      cuda-method",
        "1  XLA103      cuda-method",
        "1  XLA104      cuda-method",
    ]


def test_effort_is_a_table_by_file(checked: Run, rewritten: Run) -> None:
    assert list(tables.effort(checked)) == [
        "file      findings  by a run  --unsafe  left to you  low  medium  high",
        "src/a.py         3         1         1            1    0       0     1",
        "nb.ipynb         1         1         0            0    0       0     0",
        "all              4         2         1            1    0       0     1",
        "files        2 of 5 have findings",
        "by a run     2 of 4 findings (50 %)",
        "--unsafe     1 more",
        "left to you  1, by effort: 0 low, 0 medium, 1 high",
    ]
    assert list(tables.effort(rewritten))[-4:] == [
        "files        2 of 2 have findings",
        "by a run     2 of 4 findings (50 %)",
        "refused      1: a run without --effort lists them",
        "left to you  1, by effort: 1 low, 0 medium, 0 high",
    ]
    assert next(tables.effort(Run(()))) == "files        0 of 0 have findings"
