"""GitHub annotations: workflow commands that put findings on the lines of a pull request."""

from __future__ import annotations

from ..results import ERROR, INFO, WARNING, Diagnostic, Run

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

_COMMANDS = {ERROR: "error", WARNING: "warning", INFO: "notice"}


def lines(run: Run) -> Iterator[str]:
    """One command for each finding and problem."""
    for outcome in run.outcomes:
        verdict = outcome.verdict
        if verdict.problem:
            yield f"::error title=xla-migrate,file={_property(outcome.path)}::{_data(verdict.problem)}"
        for row in verdict.left:
            yield _annotation(outcome.left_path, row)


def _annotation(path: str, row: Diagnostic) -> str:
    title = f"xla-migrate ({row.code})"
    where = [("file", path)]
    message = row.message
    if row.cell is None:
        where += [("line", str(row.line)), ("endLine", str(row.end_line))]
        if row.line == row.end_line:  # GitHub takes columns within one line only
            where += [("col", str(row.column)), ("endColumn", str(row.end_column))]
    else:  # a line of a cell is no line of the file
        message = f"cell {row.cell}, line {row.line}: {message}"
    properties = ",".join(f"{key}={_property(value)}" for key, value in [("title", title), *where])
    return f"::{_COMMANDS[row.severity]} {properties}::{_data(message)}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
