"""What a verification compares the original with: the migrated files of its project, and their findings."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

from ..files.find import Walk
from ..files.read import ReadError, read
from ..results import Verdict
from ..settings import Finder
from ..verify.suspects import Finding
from ..verify.workspace import project_of
from .arguments import fail
from .checks import check_settings
from .work import Order, mentions, verdict_on

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ..files.find import Found
    from ..results import Row


@dataclass
class Migrated:
    """New contents, by path in the project.

    Attributes:
        files: of changed files.
        texts: (before, after) of the same.
        findings: dealt with or left, in the whole project; lines of the originals.
        left: those in the script itself that a person has to deal with.
    """

    files: dict[str, str | bytes] = field(default_factory=dict)
    texts: dict[str, tuple[str, str]] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    left: list[Finding] = field(default_factory=list)


def migrated(script: Path, unsafe: bool, only: Sequence[Path] | None = None) -> Migrated:
    """The migration of the script and of the modules of its project.

    Args:
        script: the one that is run.
        unsafe: with unsafe fixes.
        only: these files and folders in place of the whole project.

    Raises:
        SystemExit: the script cannot be migrated.
        SettingsError: the settings of the project.
    """
    project = project_of(script, None)
    order = Order(rewriting=True, unsafe=unsafe or None)
    roots = [str(script), str(project)] if only is None else [str(path) for path in only]
    out = Migrated()
    for found in Walk(Finder()).files(roots):
        name = os.path.relpath(os.path.realpath(found.path), project)
        if found.path.endswith(".ipynb") or name.startswith(os.pardir):
            continue
        if found.path.startswith(f"{project}{os.sep}"):
            found.base = str(project)  # of the script, too, which is named
        verdict, data = _judged(found, order)
        is_script = os.path.samefile(found.path, script)
        if verdict.failed and is_script:
            fail(_why_not(verdict, found))
        findings = list(_findings(verdict, name, data))
        out.findings += findings
        if is_script:
            out.left = [f for f in findings if f.left and _fails(f, verdict)]
        if verdict.data is not None:
            out.files[name] = verdict.data
            out.texts[name] = (_text(data), _text(verdict.data))
    return out


def given(script: Path, file: str) -> Migrated:
    """The migration that the user made: `file` in the script's place.

    Raises:
        SystemExit: it cannot be read.
    """
    name = os.path.relpath(script.resolve(), project_of(script, None))
    try:
        before, after = script.read_bytes(), Path(file).read_bytes()
    except OSError as error:
        fail(str(error))
    return Migrated({name: after}, {name: (_text(before), _text(after))})


def _judged(found: Found, order: Order) -> tuple[Verdict, bytes]:
    try:
        data, _ = read(found.path)
    except ReadError as error:
        return Verdict(problem=str(error), failed=True), b""
    check_settings(found.settings)
    if not mentions(data, found.settings):
        return Verdict(), data
    return verdict_on(data, found, order), data


def _why_not(verdict: Verdict, found: Found) -> str:
    if not verdict.left:
        return f"{found.shown}: {verdict.problem}"
    row = verdict.left[0]
    return f"{found.shown}:{row.line}:{row.column}: {row.code} {row.message}"


def _findings(verdict: Verdict, name: str, data: bytes) -> Iterator[Finding]:
    from ..verify.suspects import Lines

    new = data if verdict.data is None else verdict.data
    lines = Lines({name: (_text(data), _text(new))})
    for row in verdict.migrated:
        yield _finding(row, name, row.line, False)
    for row in verdict.left:
        yield _finding(row, name, lines.original(name, row.line), True)


def _finding(row: Row, name: str, line: int, left: bool) -> Finding:
    return Finding(row.code, name, line, row.message, left, row.text)


def _fails(finding: Finding, verdict: Verdict) -> bool:
    return any(row.fails and row.code == finding.code for row in verdict.left)


def _text(data: bytes) -> str:
    return data.decode("utf-8", errors="replace")
