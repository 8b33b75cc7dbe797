"""What a terminal shows of a finding."""

from __future__ import annotations

import pytest

from xla_migrate.reports import full
from xla_migrate.reports.paint import Paint, wanted
from xla_migrate.results import Diagnostic, FileOutcome, FileVerdict, Run

from .conftest import row


class Shown:
    def __init__(self, text: str, *fix: str) -> None:
        self.text = text
        self.changed = list(fix)

    def line(self, row: Diagnostic) -> str:
        return self.text

    def fix(self, row: Diagnostic) -> list[str]:
        return self.changed


def lines(finding: Diagnostic, excerpt: Shown, color: bool = False) -> list[str]:
    run = Run((FileOutcome("a.py", FileVerdict((finding,))),))
    return list(full.lines(run, lambda outcome: excerpt, Paint(color)))


def test_a_caret_and_the_fix() -> None:
    excerpt = Shown("x = y.cuda()", "- x = y.cuda()", "+ x = y.to(device)")
    assert lines(row(line=12, end_column=13), excerpt) == [
        "error[XLA101] `.cuda()` fails on an XLA host: use `.to(xla.xla_device())`",
        "  --> a.py:12:5",
        "   |",
        "12 | x = y.cuda()",
        "   |     ^^^^^^^^",
        "   = safe fix:",
        "     - x = y.cuda()",
        "     + x = y.to(device)",
        "",
    ]


def test_a_change_of_several_findings_is_shown_once() -> None:
    excerpt = Shown("x = y.cuda()", "- x = y.cuda()", "- z = y.cuda()", "+ x = z = y.to(device)")
    rows = (row(line=7), row(line=8), row(line=20))
    run = Run((FileOutcome("a.py", FileVerdict(rows)),))
    shown = list(full.lines(run, lambda outcome: excerpt, Paint(False)))
    assert [line for line in shown if "fix:" in line] == [
        "  = safe fix:",
        "  = safe fix: see above",
        "   = safe fix:",
    ]


def test_tabs_wide_characters_and_several_lines() -> None:
    shown = lines(row(column=2, end_column=9), Shown("\tx.cuda()"))
    assert shown[3:5] == ["1 |     x.cuda()", "  |     ^^^^^^^"]
    shown = lines(row(column=7, end_column=12), Shown("'文字', x.cuda(y)"))
    assert shown[4] == "  |         ^^^^^"
    shown = lines(row(end_line=3), Shown("x = f(  "))
    assert shown[4] == "  |     ^^"
    assert lines(row(), Shown(""))[1:] == [" --> a.py:1:5", ""]


def test_severity_can_be_seen() -> None:
    assert lines(row(severity="info"), Shown(""))[0].startswith("note[XLA101] ")
    slow = row(severity="warning", about="speed")
    assert lines(slow, Shown(""))[0].startswith("warning (speed)[XLA101] ")
    assert lines(slow, Shown(""), color=True)[0].startswith("\x1b[1;33mwarning (speed)[XLA101]\x1b")
    assert "\x1b[1;31merror" in lines(row(), Shown(""), color=True)[0]


def test_source_cannot_steer_the_terminal() -> None:
    shown = "\n".join(lines(row(), Shown("x = '\x1b[2J'", "+ x = '\x1b[2J'")))
    assert "\x1b" not in shown


class Stream:
    def __init__(self, terminal: bool) -> None:
        self.terminal = terminal

    def isatty(self) -> bool:
        return self.terminal


@pytest.mark.parametrize(
    ("when", "terminal", "env", "expected"),
    [
        ("auto", True, {}, True),
        ("auto", False, {}, False),
        ("auto", True, {"NO_COLOR": "1"}, False),
        ("auto", True, {"TERM": "dumb"}, False),
        ("auto", False, {"FORCE_COLOR": "1"}, True),
        ("always", False, {"NO_COLOR": "1"}, True),
        ("never", True, {}, False),
    ],
)
def test_colour(
    monkeypatch: pytest.MonkeyPatch, when: str, terminal: bool, env: dict[str, str], expected: bool
) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    assert wanted(when, Stream(terminal)) is expected  # type: ignore[arg-type]
