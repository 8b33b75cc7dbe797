"""Excerpts of a file for a report on a terminal: the lines of findings, and the changes by their fixes."""

from __future__ import annotations

import os

from ...files.read import ReadError, read

TYPE_CHECKING = False
if TYPE_CHECKING:
    from xla_codemods.line_diff import Code

    from ...files.find import FoundFile
    from ...results import Diagnostic, FileOutcome
    from ..work import RunOptions

# Source by cell; of a Python file under None.
_Lines = dict["int | None", list[str]]


class Excerpts:
    """One file's.

    Args:
        outcome: what was found in it.
        found: the file; None if it is not known: then there is nothing to show.
        options: what the run was asked for.
    """

    def __init__(self, outcome: FileOutcome, found: FoundFile | None, options: RunOptions) -> None:
        self._outcome = outcome
        self._found = found
        self._options = options
        self._data: bytes | None = None
        self._lines: _Lines = {}
        self._new: _Lines | None = None
        self._codes: dict[int | None, list[Code]] = {}
        if found is not None and outcome.verdict.left:
            # With --output, line numbers refer to the file that was written.
            path = found.path
            if outcome.left_path != outcome.path:
                path = os.path.abspath(outcome.left_path)
            self._lines = self._of(path)

    def line(self, row: Diagnostic) -> str:
        """The first line of the finding's place; empty if it is not known."""
        lines = self._lines.get(row.cell, [])
        return lines[row.line - 1] if row.line <= len(lines) else ""

    def fix(self, row: Diagnostic) -> list[str]:
        """Return the change by a run as lines of a diff; none if it makes no fix."""
        if self._options.rewriting or not row.is_fixed_by_a_run(self._outcome.unsafe):
            return []
        if self._new is None:
            self._new = self._migrated()
        old, new = self._lines.get(row.cell, []), self._new.get(row.cell, [])
        if row.cell not in self._codes:
            from xla_codemods.line_diff import opcodes

            self._codes[row.cell] = opcodes(old, new)
        codes = [code for code in self._codes[row.cell] if code[0] != "equal"]
        found = [c for c in codes if c[1] < row.end_line and c[2] > row.line - 1]
        if not found:  # lines are added before or after those of the finding
            found = [c for c in codes if c[1] == c[2] and row.line - 1 <= c[1] <= row.end_line]
        out: list[str] = []
        for _, start, end, first, last in found:
            out += [f"- {line}" for line in old[start:end]]
            out += [f"+ {line}" for line in new[first:last]]
        return out

    def _of(self, path: str) -> _Lines:
        try:
            self._data = read(path, path.endswith(".ipynb"))[0]
        except ReadError:
            return {}
        return _split(self._data, path)

    def _migrated(self) -> _Lines:
        from ..work import RunOptions, verdict_on

        if self._found is None or self._data is None:
            return {}
        options = self._options
        rewriting = RunOptions(
            rewriting=True,
            select=options.select,
            ignore=options.ignore,
            unsafe=options.unsafe,
            parallel=options.parallel,
            origin=options.origin,
            style=options.style,
        )
        new = verdict_on(self._data, self._found, rewriting).data
        return self._lines if new is None else _split(new, self._found.path)


def _split(data: bytes, path: str) -> _Lines:
    from xla_codemods.source import Source, SourceError, split_lines

    if path.endswith(".ipynb"):
        from ...files.notebook import Notebook, NotebookError

        try:
            return {cell: text.splitlines() for cell, text in Notebook(data).all_texts().items()}
        except NotebookError:
            return {}
    try:
        text = Source(data).text
    except SourceError:  # it is shown all the same, so far as it can be
        text = data.decode(errors="replace")
    return {None: [line.rstrip("\r\n") for line in split_lines(text)]}
