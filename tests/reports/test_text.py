"""What people read."""

from __future__ import annotations

import pytest

from xla_migrate.reports import text
from xla_migrate.results import FileOutcome, FileVerdict, Run

from .conftest import row


def test_one_line_for_each(checked: Run) -> None:
    assert list(text.lines(checked)) == [
        "broken.py:2:7: XLA001 invalid syntax",
        "gone.py: No such file or directory",
        "nb.ipynb:cell 3:2:5: XLA101 [*] `.cuda()` fails on an XLA host: use `.to(xla.xla_device())`",
        "src/a.py:1:5: XLA101 [*] `.cuda()` fails on an XLA host: use `.to(xla.xla_device())`",
        "src/a.py:3:5: XLA102 `.cuda()` fails on an XLA host: use `.to(xla.xla_device())`",
        "src/a.py:4:5: XLA103 50% of: a,\\nb",
        "src/a.py:5:5: XLA104 note: `.cuda()` fails on an XLA host: use `.to(xla.xla_device())`",
    ]


def test_with_unsafe_those_are_marked_too(checked: Run) -> None:
    with_unsafe = tuple(outcome.replace(unsafe=True) for outcome in checked.outcomes)
    lines = "\n".join(text.lines(checked.replace(outcomes=with_unsafe)))
    assert "src/a.py:3:5: XLA102 [*] `" in lines


def test_after_a_rewrite_nothing_is_marked(rewritten: Run) -> None:
    assert list(text.lines(rewritten)) == [
        "b.py:9:5: XLA101 `.cuda()` fails on an XLA host: use `.to(xla.xla_device())`",
        "b.py:1:5: XLA103 `.cuda()` fails on an XLA host: use `.to(xla.xla_device())`",
        "b.py:9: not rewritten: a form feed",
    ]
    assert list(text.copies(rewritten)) == ["a.py: the original is kept as a.py.orig"]


def test_summaries(checked: Run, rewritten: Run) -> None:
    assert text.summary(checked) == (
        "4 findings in 2 of 3 files: `xla-migrate` migrates 2, 1 more with --unsafe, 1 needs you (XLA103). "
        "Plus 1 note. 2 files could not be analysed or written."
    )
    assert text.summary(rewritten) == (
        "2 of 4 findings migrated in 1 file; 1 could not be rewritten, 1 needs you (XLA103)."
    )
    assert text.summary(Run(())) == "Nothing to migrate in 0 files."
    assert (
        text.summary(Run((FileOutcome("a", FileVerdict()),), rewriting=True))
        == "Nothing to migrate in 1 file."
    )
    all_of_it = Run((FileOutcome("a.py", FileVerdict((row(), row()))),))
    assert text.summary(all_of_it) == "2 findings in 1 file: `xla-migrate` migrates all of them."
    done = Run((FileOutcome("a.py", FileVerdict(migrated=(row(),)), written=True),), rewriting=True)
    assert text.summary(done) == "1 of 1 finding migrated in 1 file."
    shown = Run((FileOutcome("a.py", FileVerdict(migrated=(row(),)), diff=b"x"),), rewriting=True)
    assert text.summary(shown) == "1 of 1 finding would be migrated in 1 file."
    known = Run((FileOutcome("a.py", FileVerdict()),), known=2, stale=1)
    assert text.summary(known) == (
        "Nothing to migrate in 1 file. 2 findings hidden by the baseline. "
        "1 entry of the baseline no longer occurs: update it with --write-baseline."
    )


def test_many_codes_are_cut_short() -> None:
    rows = tuple(row(f"XLA90{k}", safety=None) for k in range(8))
    run = Run((FileOutcome("a.py", FileVerdict(rows)),))
    assert "8 need you (XLA900, XLA901, XLA902, XLA903, XLA904 and 3 more)." in text.summary(run)


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("a\nb.py", "a\\nb.py"),
        ("\x1b[31m.py", "\\x1b[31m.py"),
        ("é 文.py", "é 文.py"),
        ("\udcff", "\\udcff"),
    ],
)
def test_a_path_cannot_break_a_line(name: str, shown: str) -> None:
    run = Run((FileOutcome(name, FileVerdict(problem="x", failed=True)),))
    assert list(text.lines(run)) == [f"{shown}: x"]


def test_exit_codes(checked: Run, rewritten: Run) -> None:
    assert checked.exit_code == 2
    assert rewritten.exit_code == 1
    assert Run(()).exit_code == 0
    note = row(severity="info")
    assert Run((FileOutcome("a", FileVerdict((note,))),)).exit_code == 0
    assert Run((FileOutcome("a", FileVerdict((note,)), diff=b"x"),)).exit_code == 1
    assert Run((FileOutcome("a", FileVerdict((row(severity="warning"),))),)).exit_code == 1


def test_what_is_about_speed_does_not_fail_and_says_so() -> None:
    slow = row("XLA503", severity="warning", safety=None, about="speed")
    run = Run((FileOutcome("a.py", FileVerdict((slow,))),), rewriting=True)
    assert run.exit_code == 0
    assert text.summary(run) == (
        "0 of 1 finding migrated in 1 file; 1 needs you (XLA503)."
        " The remaining findings are only about speed: exit code 0 (`--fail-on speed` makes it 1)."
    )
    strict = run.replace(outcomes=(run.outcomes[0].replace(fail_on="speed"),))
    assert strict.exit_code == 1
    assert text.summary(strict).endswith(" The remaining findings are only about speed.")
    both = Run((FileOutcome("a.py", FileVerdict((slow, row("XLA101", safety=None)))),))
    assert both.exit_code == 1
    assert text.summary(both).endswith(" 1 of the 2 is only about speed.")
    wrong = Run((FileOutcome("a.py", FileVerdict((slow.replace(severity="error"),))),))
    assert wrong.exit_code == 1
