"""The migrated side of a verification: the files of the project, and their findings."""

from __future__ import annotations

import os
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from ...files.find import FoundFile
from ...results import Diagnostic, FileVerdict
from ..judge.blame import MigrationFinding
from ..judge.source_lines import SourceLines
from .notebook import NotebookScriptError, as_script
from .originals import differing, sources
from .workspace import project_of

# One file migrated: what became of it, and its bytes before.
MigrateFile = Callable[[FoundFile], tuple[FileVerdict, bytes]]
# Code of a rule -> what its findings may be behind: symptom -> how likely.
Reasons = Mapping[str, Mapping[str, int]]


class MigrationError(Exception):
    """The script cannot be migrated; the message is one line, with the place."""


@dataclass
class ProjectMigration:
    """New contents, by path in the project.

    Attributes:
        files: of changed files.
        originals: what runs in place of the originals: of a notebook, its cells as a script.
        texts: (before, after) of the same.
        findings: dealt with or left, in the whole project; lines of the originals.
        left: findings in the script itself that need manual changes.
        version: the source of the original, if it is not the file on disk: "train.py.orig", "git 1a2b3c4d".
        complete: migrates files of the project that turn out to be loaded, by path, unless it is done.
    """

    files: dict[str, str | bytes] = field(default_factory=dict)
    originals: dict[str, str | bytes] = field(default_factory=dict)
    texts: dict[str, tuple[str, str]] = field(default_factory=dict)
    findings: list[MigrationFinding] = field(default_factory=list)
    left: list[MigrationFinding] = field(default_factory=list)
    version: str = ""
    complete: Callable[[Iterable[str]], None] = lambda names: None

    def drives_all_devices(self, script: Path) -> bool:
        """True if the migrated script is started once for all devices (`use_spmd`), not once for each."""
        name = os.path.relpath(script.resolve(), project_of(script, None))
        return "use_spmd(" in self.texts.get(name, ("", ""))[1]


def of_project(
    script: Path,
    files: Iterable[FoundFile],
    migrate: MigrateFile,
    reasons: Reasons,
    only: Container[str] | None = None,
) -> ProjectMigration:
    """The migration of the script and of the modules of its project.

    Args:
        script: the one that is run.
        files: all that may be migrated; those outside of the script's project are left out.
        migrate: migrates one of them, without writing it.
        reasons: what the findings of each rule may be behind.
        only: paths in the project of the files that are migrated at once; `complete` migrates others. None: all.

    Raises:
        MigrationError: the script itself cannot be migrated.
    """
    project = project_of(script, None)
    out, later = ProjectMigration(), dict[str, FoundFile]()

    def add(found: FoundFile, name: str, is_script: bool) -> None:
        verdict, data = migrate(found)
        if verdict.failed and is_script:
            raise MigrationError(_why_not(verdict, found))
        if is_script and found.path.endswith(".ipynb"):
            _add_notebook(out, verdict, name, data, found.shown)
        else:
            _add(out, verdict, name, data, is_script)

    def with_reasons(findings: Iterable[MigrationFinding]) -> list[MigrationFinding]:
        return [replace(f, behind=reasons.get(f.code, {})) for f in findings]

    def complete(names: Iterable[str]) -> None:
        for name in names:
            if name in later:
                add(later.pop(name), name, False)
        out.findings = with_reasons(out.findings)

    for found in files:
        name = os.path.relpath(os.path.realpath(found.path), project)
        is_script = os.path.samefile(found.path, script)
        if name.startswith(os.pardir) or (found.path.endswith(".ipynb") and not is_script):
            continue
        if found.path.startswith(f"{project}{os.sep}"):
            found.base = str(project)  # also for the script, which the user named
        if is_script or only is None or name in only:
            add(found, name, is_script)
        else:
            later[name] = found
    out.findings = with_reasons(out.findings)
    out.complete = complete
    return out


def _add(
    out: ProjectMigration, verdict: FileVerdict, name: str, data: bytes, is_script: bool
) -> None:
    findings = list(_findings(verdict, name, data))
    out.findings += findings
    if is_script:
        out.left = [f for f in findings if f.left and _fails(f, verdict)]
    if verdict.data is not None:
        out.files[name] = verdict.data
        out.texts[name] = (_text(data), _text(verdict.data))


def _add_notebook(
    out: ProjectMigration, verdict: FileVerdict, name: str, data: bytes, shown: str
) -> None:
    """Both sides run its cells as a script, which takes the file's place."""
    try:
        before = as_script(data, shown)
        after = before if verdict.data is None else as_script(verdict.data, shown)
    except NotebookScriptError as error:
        raise MigrationError(str(error)) from error
    out.originals[name] = before.text
    out.files[name] = after.text
    out.texts[name] = before.text, after.text
    lines = SourceLines({name: out.texts[name]})
    findings = [
        _finding(row, name, before.line(row.cell, row.line), False) for row in verdict.migrated
    ]
    findings += [
        _finding(row, name, lines.original(name, after.line(row.cell, row.line)), True)
        for row in verdict.left
    ]
    out.findings += findings
    out.left = [f for f in findings if f.left and _fails(f, verdict)]


def finished(
    script: Path,
    proposed: ProjectMigration,
    originals: Mapping[str, bytes | None],
    files: Mapping[str, bytes],
) -> ProjectMigration:
    """Return a migration whose two sides are given, with the findings of the tool's own migration.

    Args:
        script: the one that is run.
        proposed: what the tool makes of the originals.
        originals: contents of the original by path in the project, if different from the tree's.
        files: contents of the migrated side, if different from the tree's.

    Raises:
        OSError: a file cannot be read.
        MigrationError: the script is a notebook that cannot be run as a script.
    """
    project = project_of(script, None)
    out = ProjectMigration(findings=proposed.findings, left=proposed.left)
    known = {name: data for name, data in originals.items() if data is not None}
    out.originals, out.files = dict(known), dict(files)
    for name in {*known, *files}:
        place = project / name
        before, after = _both(place, name, known, files)
        if name.endswith(".ipynb") and place.resolve() == script.resolve():
            _add_notebook(out, FileVerdict(data=after), name, before, str(script))
        elif name.endswith(".py"):
            out.texts[name] = (_text(before), _text(after))
    return out


def both_texts(
    script: Path, name: str, originals: Mapping[str, bytes | None], files: Mapping[str, bytes]
) -> tuple[str, str]:
    """Return the (original, migrated) text of one file, as in `finished`."""
    before, after = _both(project_of(script, None) / name, name, originals, files)
    return _text(before), _text(after)


def _both(
    place: Path, name: str, originals: Mapping[str, bytes | None], files: Mapping[str, bytes]
) -> tuple[bytes, bytes]:
    on_disk = place.read_bytes() if place.is_file() else b""
    before, after = originals.get(name, on_disk), files.get(name, on_disk)
    return before or b"", after


def given_files(script: Path, migrated: Path) -> dict[str, bytes]:
    """Return the migrated side that a user gives, by path in the script's project.

    Args:
        script: the original script, in its project.
        migrated: a script in place of it, with the modules around it if it is in another folder; or a folder
            that stands for the project or for the script's folder.

    Raises:
        MigrationError: the folder has no such script.
        OSError: a file cannot be read.
    """
    project = project_of(script, None)
    name = script.resolve().relative_to(project)
    if migrated.is_dir():
        root = Path() if (migrated / name).is_file() else name.parent
        if not (migrated / name.relative_to(root)).is_file():
            raise MigrationError(f"--migrated {migrated}: {name} does not exist there")
        return {str(root / each): data for each, data in _contents(migrated, project / root)}
    out: dict[str, bytes] = {}
    folder = migrated.resolve().parent
    if folder != script.resolve().parent:
        depth = len(name.parts) - 1
        above = migrated.resolve().parents[depth]
        is_whole = migrated.resolve().relative_to(above) == name
        root, base = (Path(), above) if is_whole else (name.parent, folder)
        if project not in (base, *base.parents):  # another project, and no folder of this one
            out = {str(root / each): data for each, data in _contents(base, project / root)}
        else:
            out = {
                str(root / each): data
                for each, data in _contents(base, project / root)
                if (script.resolve().parent / each).is_file()
            }
    return {**out, str(name): migrated.read_bytes()}


def _contents(folder: Path, place: Path) -> Iterator[tuple[str, bytes]]:
    """Yield the sources of a folder, and what else it has, such as settings, that differs from `place`."""
    yield from sources(folder)
    yield from differing(folder, place)


def _why_not(verdict: FileVerdict, found: FoundFile) -> str:
    if not verdict.left:
        return f"{found.shown}: {verdict.problem}"
    row = verdict.left[0]
    return f"{found.shown}:{row.line}:{row.column}: {row.code} {row.message}"


def _findings(verdict: FileVerdict, name: str, data: bytes) -> Iterator[MigrationFinding]:
    new = data if verdict.data is None else verdict.data
    lines = SourceLines({name: (_text(data), _text(new))})
    for row in verdict.migrated:
        yield _finding(row, name, row.line, False)
    for row in verdict.left:
        yield _finding(row, name, lines.original(name, row.line), True)


def _finding(row: Diagnostic, name: str, line: int, left: bool) -> MigrationFinding:
    is_note = left and not row.fails
    return MigrationFinding(row.code, name, line, row.message, left, row.text, is_note=is_note)


def _fails(finding: MigrationFinding, verdict: FileVerdict) -> bool:
    rows = (row for row in verdict.left if row.fails and not row.is_about_speed)
    return any(row.code == finding.code for row in rows)


def _text(data: bytes) -> str:
    return data.decode("utf-8", errors="replace")
