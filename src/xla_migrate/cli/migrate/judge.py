"""One file's bytes in, the verdict on it out: the engine asked, its findings made plain."""

from __future__ import annotations

import os

from xla_codemods import engine
from xla_codemods.engine import Options
from xla_codemods.finding import Finding
from xla_codemods.rules import RULES
from xla_codemods.source import SourceError, split_lines

from ...results import CORRECTNESS, INFO, Diagnostic, FileVerdict, cannot_parse

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from xla_codemods.analysis.projects.project import Project

    from ...files.notebook import Notebook


_NOTEBOOK_LINE = "a shell line or magic of a notebook: comment it out, or use the .ipynb"


def judge(
    data: bytes,
    path: str,
    options: Options,
    rewriting: bool,
    verbose: bool = False,
    project: Project | None = None,
) -> FileVerdict:
    """The verdict on `data`, the content of the file at the absolute `path`.

    Args:
        data: a Python source, or a notebook if the path ends so.
        path: where it lies, which tells packages and notebooks.
        options: what is wanted.
        rewriting: make the fixes, too.
        verbose: show where in our sources an internal error came from, on stderr.
        project: the other modules of its project.
    """
    try:
        if path.endswith(".ipynb"):
            return _notebook(data, path, options, rewriting, project)
        return _source(data, path, options, rewriting, project)
    except SourceError as error:
        reason = _NOTEBOOK_LINE if _is_of_a_notebook(data, error.line) else error.reason
        return FileVerdict((cannot_parse(reason, error.line, error.column),), failed=True)
    except RecursionError:  # what Python parses can still be too deep to walk
        return FileVerdict((cannot_parse("nested too deeply to be analysed", 1, 1),), failed=True)
    except MemoryError:
        return FileVerdict(
            problem="needs more memory than this machine has", failed=True, settled=False
        )
    except Exception as error:  # the other files are still to be done
        from ..internal import internal_error

        return FileVerdict(problem=internal_error(error, verbose), failed=True, settled=False)


def _source(
    data: bytes, path: str, options: Options, rewriting: bool, project: Project | None = None
) -> FileVerdict:
    if not rewriting:
        findings = engine.check(data, options, path, project)
        left = _rows(findings, data)
        return FileVerdict(
            left, settled=not any(row.is_fixed_by_a_run(options.unsafe) for row in left)
        )
    migration = engine.migrate(data, options, path, project)
    changed = migration.data != data
    return FileVerdict(
        _rows(migration.left, migration.data),
        _rows(migration.migrated, data),
        migration.data if changed else None,
        tuple((line, None, reason) for line, reason in migration.refused),
    )


def _notebook(
    data: bytes, path: str, options: Options, rewriting: bool, project: Project | None = None
) -> FileVerdict:
    from ...files.notebook import Notebook, NotebookError

    try:
        book = Notebook(data)
        verdict = _source(book.program.encode(), path, options, rewriting, project)
        program = book.program if verdict.data is None else verdict.data.decode()
        new = None if verdict.data is None else book.rebuilt(program)
        beside = _shell_findings(book if new is None else Notebook(new), path, options)
        left = (*_in_cells(verdict.left, book, program), *beside)
        return verdict.replace(
            left=tuple(sorted(left, key=lambda row: (row.cell or 0, row.line, row.column))),
            migrated=_in_cells(verdict.migrated, book, book.program),
            data=new,
            notes=_notes(verdict, book),
        )
    except NotebookError as error:
        row = cannot_parse(error.reason, error.line, error.column, error.cell)
        return FileVerdict((row,), failed=True)
    except SourceError as error:
        cell, line = book.place(book.program, error.line)
        return FileVerdict((cannot_parse(error.reason, line, error.column, cell),), failed=True)


def _shell_findings(book: Notebook, path: str, options: Options) -> Iterator[Diagnostic]:
    """Yield findings in a notebook's shell commands and in the files that its cells write. They are not rewritten."""
    from ...files.launch_names import may_launch
    from ...target.launch_files.codes import NVIDIA_PROGRAM
    from ...target.launch_files.judge import findings_without_fixes

    for cell, text in book.shell().items():
        for row in findings_without_fixes(text, "cell.sh", options.selects):
            shown = (
                row.code == NVIDIA_PROGRAM and row.column == 2
            )  # `!nvidia-smi` fails, and the notebook goes on
            yield row.replace(cell=cell, severity=INFO if shown else row.severity)
    for cell, (name, text) in book.written().items():
        rows: tuple[Diagnostic, ...] = ()
        if name.endswith(".py"):
            rows = _rows(engine.check(text.encode(), options, path), text.encode())
        elif may_launch(os.path.basename(name)):
            rows = findings_without_fixes(text, os.path.basename(name), options.selects)
        yield from (row.replace(cell=cell, safety=None) for row in rows)


def _in_cells(rows: tuple[Diagnostic, ...], book: Notebook, program: str) -> tuple[Diagnostic, ...]:
    """Rows with places in cells instead of in `program`."""
    moved = []
    for row in rows:
        cell, line = book.place(program, row.line)
        moved.append(row.replace(line=line, end_line=line + row.end_line - row.line, cell=cell))
    return tuple(moved)


def _notes(verdict: FileVerdict, book: Notebook) -> tuple[tuple[int, int | None, str], ...]:
    notes = []
    for line, _, reason in verdict.notes:
        cell, place = book.place(book.program, line)
        notes.append((place, cell, reason))
    return tuple(notes)


def _rows(findings: Iterable[Finding], data: bytes) -> tuple[Diagnostic, ...]:
    """Findings without their syntax trees, with the text of their lines."""
    findings = list(findings)
    if not findings:
        return ()
    lines = split_lines(data.decode(errors="replace"))

    about = _about()

    def text(line: int) -> str:
        return lines[line - 1].strip() if line <= len(lines) else ""

    return tuple(
        Diagnostic(
            f.code,
            f.name,
            f.message,
            f.line,
            f.column,
            f.end_line,
            f.end_column,
            f.severity,
            f.effort,
            f.safety,
            text(f.line),
            about=about.get(f.code, CORRECTNESS),
        )
        for f in findings
    )


def _about() -> dict[str, str]:
    """Return what the findings of each rule are about, by code."""
    return {rule.code: rule.about for rule in RULES}


def _is_of_a_notebook(data: bytes, line: int) -> bool:
    """Return True if the line is `!nvidia-smi` or `%matplotlib inline`, as exports of notebooks have them."""
    lines = data.splitlines()
    text = lines[line - 1].strip() if 0 < line <= len(lines) else b""
    return text[:1] in (b"!", b"%") and text[1:2].isalpha()
