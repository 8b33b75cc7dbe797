"""The full report for a terminal: each finding with its source line, a caret, and its fix as a diff."""

from __future__ import annotations

from ..results import ERROR, WARNING, Diagnostic, FileOutcome, Run
from .text import one_line, place
from .width import wrapped

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Protocol

    from .paint import Paint

    class Excerpt(Protocol):
        """Excerpts of one file for a report."""

        def line(self, row: Diagnostic) -> str:
            """The first line of a finding's place, without its end; empty if it is not known."""

        def fix(self, row: Diagnostic) -> list[str]:
            """Return the change by a run: lines that begin with `-` or `+`; none if it changes nothing."""


_STYLES = {ERROR: "red", WARNING: "yellow"}
_MOST = 12  # lines of one fix


def lines(
    run: Run,
    excerpt_of: Callable[[FileOutcome], Excerpt],
    paint: Paint,
    width: int | None = None,
) -> Iterator[str]:
    """Yield the lines of all findings, problems and refused fixes, with an empty line between findings.

    Messages that are longer than `width` are wrapped; source lines are not.
    """
    for outcome in run.outcomes:
        path = one_line(outcome.path)
        if outcome.verdict.problem:
            yield f"{paint('error', 'red')}: {path}: {outcome.verdict.problem}"
            yield ""
        excerpt = excerpt_of(outcome)
        above, shown_at = list[str](), 0
        for row in outcome.verdict.left:
            yield from _finding(one_line(outcome.left_path), row, excerpt, paint, width)
            fix = excerpt.fix(row)
            removed = sum(line.startswith("-") for line in fix)
            is_above = fix == above and abs(row.line - shown_at) < removed
            yield from _fix(row, fix, is_above, paint)
            yield ""
            above, shown_at = fix, row.line
        for line, cell, reason in outcome.verdict.notes:
            where = f"cell {cell}:{line}" if cell is not None else str(line)
            yield f"{paint('not rewritten', 'yellow')}: {path}:{where}: {reason}"
            yield ""


def _finding(
    path: str, row: Diagnostic, excerpt: Excerpt, paint: Paint, width: int | None
) -> Iterator[str]:
    style = _STYLES.get(row.severity, "blue")
    severity = "note" if style == "blue" else row.severity
    kind = f"{severity} (speed)" if row.is_about_speed else severity
    head = f"{kind}[{row.code}]"
    message = one_line(row.message)
    rows = wrapped(message, width, " " * (len(head) + 1), "    ") if width else [message]
    yield f"{paint(head, style)} {paint(rows[0].strip(), 'bold')}"
    yield from (f"    {paint(text.strip(), 'bold')}" for text in rows[1:])
    gutter = " " * len(str(row.line))
    bar = paint("|", "blue")
    yield f"{gutter}{paint('-->', 'blue')} {place(path, row)}"
    text = excerpt.line(row)
    if text.strip():
        shown, marks = _underlined(text, row)
        yield f"{gutter} {bar}"
        yield f"{paint(str(row.line), 'blue')} {bar} {shown}"
        yield f"{gutter} {bar} {paint(marks, style)}".rstrip()


def _fix(row: Diagnostic, fix: list[str], is_above: bool, paint: Paint) -> Iterator[str]:
    """Yield the lines about a fix; not its change again if the finding above has the same."""
    if not fix:
        return
    gutter = " " * len(str(row.line))
    head = f"{gutter} {paint('=', 'blue')} {row.safety} fix:"
    if is_above:
        yield f"{head} see above"
        return
    yield head
    for line in fix[:_MOST]:
        yield f"{gutter}   {paint(one_line(line.expandtabs(4)), _DIFF[line[0]])}"
    if len(fix) > _MOST:
        yield f"{gutter}   ... {len(fix) - _MOST} more lines (--diff shows them)"


_DIFF = {"-": "removed", "+": "green"}


def _underlined(text: str, row: Diagnostic) -> tuple[str, str]:
    """The line as it is shown, and carets below the finding's place in it."""
    end = row.end_column - 1 if row.end_line == row.line else len(text.rstrip())
    before = _width(text[: row.column - 1].expandtabs(4))
    length = _width(text[:end].expandtabs(4)) - before
    return one_line(text.expandtabs(4)).rstrip(), " " * before + "^" * max(length, 1)


def _width(text: str) -> int:
    """Cells of a terminal."""
    if text.isascii():
        return len(text)
    import unicodedata

    wide = sum(unicodedata.east_asian_width(char) in "WF" for char in text)
    return len(text) + wide - sum(unicodedata.combining(char) != 0 for char in text)


_INSTALLATION = "install xla-migrate from this checkout or wheel and add it to your requirements, or migrate with `--style native`"


def following(run: Run, script: str, paint: Paint) -> Iterator[str]:
    """Yield what to do next.

    Args:
        run: what was done.
        script: a file that was rewritten and looks like a program; empty if there is none.
        paint: colours.
    """
    code = next((row.code for o in run.outcomes for row in o.verdict.left if row.fails), "")
    steps = []
    if script:
        steps.append(("prove it", f"xla-migrate verify {script} -- ARGUMENTS OF THE SCRIPT"))
    if code:
        steps.append(("why", f"xla-migrate explain {code}"))
    if any(outcome.written for outcome in run.outcomes):
        steps.append(("on the training host", _INSTALLATION))
    width = max((len(what) for what, _ in steps), default=0)
    for what, command in steps:
        yield f"{paint(f'{what}:'.ljust(width + 1), 'dim')} {command}"
